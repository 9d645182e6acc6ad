"""UCX's headers. The product opens the library at run time.

STAGECOACH_HAVE_UCX_HEADERS is 0, and @ucx//:headers empty, where Debian's
libucx-dev is not installed; BUILD files can `load("@ucx//:config.bzl",
"HAVE_UCX")`.
"""

def _ucx_repository_impl(rctx):
    # In the compiler's own include path; the copy makes an upgrade change every
    # dependent action's cache key.
    version = rctx.path("/usr/include/ucp/api/ucp_version.h")
    have = version.exists
    rctx.file("config.bzl", "HAVE_UCX = {}\n".format(have))
    rctx.file("version_ucx.h", "".join([
        "// " + line + "\n"
        for line in (rctx.read(version) if have else "none").split("\n")
    ]))
    rctx.file("BUILD.bazel", """cc_library(
    name = "headers",
    hdrs = ["version_ucx.h"],
    defines = ["STAGECOACH_HAVE_UCX_HEADERS={}"],
    linkopts = ["-ldl"],
    visibility = ["//visibility:public"],
)
""".format(1 if have else 0))

ucx_repository = repository_rule(
    implementation = _ucx_repository_impl,
    configure = True,
    local = True,
)
