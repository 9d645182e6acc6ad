"""Python packages for the tests that have the tag "python".

Looks at .deps/python in the workspace, which scripts/python_env.sh makes. Where
there is none, @python_packages//:packages is empty and these tests skip.
"""

def _python_repository_impl(rctx):
    root = rctx.path(Label("@stagecoach//:WORKSPACE")).realpath.dirname
    packages = root.get_child(".deps").get_child("python")
    if packages.exists:
        rctx.symlink(packages.realpath, "packages")
    rctx.file("BUILD.bazel", """
filegroup(
    name = "packages",
    srcs = glob(["packages/tokenizers/**"], exclude = ["**/__pycache__/**"]),
    visibility = ["//visibility:public"],
)
""")

python_repository = repository_rule(
    implementation = _python_repository_impl,
    configure = True,
    local = True,
)
