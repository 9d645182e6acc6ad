"""The CUDA runtime and NCCL: headers for the code, libraries for one link test.

The product opens these libraries at run time, so it depends on the headers
alone (@cuda//:cuda_headers, @cuda//:nccl_headers). @cuda//:linked links both
libraries and has "cuda_found.h", which says what there is; only
//tests/link_check uses it.

Looks at $CUDA_HOME, else /usr/local/cuda; then at Debian's own paths for NCCL;
then at what scripts/setup.sh unpacked (the CUDA runtime always, NCCL where there
is a GPU). Where headers are absent the targets are empty and
STAGECOACH_HAVE_{CUDA,NCCL}_HEADERS is 0; BUILD files can
`load("@cuda//:config.bzl", "HAVE_CUDA", "HAVE_NCCL")`.
"""

def _first(folders, name):
    """The first of the folders that holds the file, or None."""
    for folder in folders:
        path = folder.get_child(name)
        if path.exists:
            return path
    return None

def _where(folders, name):
    return "no {} in {}".format(name, ", ".join([str(folder) for folder in folders]))

def _cuda_repository_impl(rctx):
    workspace = rctx.path(Label("@stagecoach//:WORKSPACE")).realpath.dirname
    nvidia = workspace.get_child(".deps").get_child("torch").get_child("nvidia")
    wheel = nvidia.get_child("cu13")
    nccl_wheel = nvidia.get_child("nccl")
    home = rctx.path(rctx.os.environ.get("CUDA_HOME") or "/usr/local/cuda")

    cuda_includes = [home.get_child("include"), wheel.get_child("include")]
    cuda_libs = [home.get_child("lib64"), wheel.get_child("lib")]
    nccl_includes = [home.get_child("include"), rctx.path("/usr/include"), nccl_wheel.get_child("include")]
    nccl_libs = [home.get_child("lib64"), rctx.path("/usr/lib/x86_64-linux-gnu"), nccl_wheel.get_child("lib")]

    # A runtime without its crt/ folder (a package of its own) does not compile.
    whole = [folder for folder in cuda_includes if folder.get_child("crt").exists]
    cuda_h = _first(whole, "cuda_runtime_api.h")
    nccl_h = _first(nccl_includes, "nccl.h") if cuda_h else None
    if cuda_h:
        rctx.symlink(cuda_h.dirname, "include")
    if nccl_h:
        # Alone: the folder may be /usr/include.
        rctx.symlink(nccl_h, "nccl/nccl.h")

    cudart = _first(cuda_libs, "libcudart.so.13") if cuda_h else None
    nccl = _first(nccl_libs, "libnccl.so.2") if nccl_h else None
    linked = []
    for library in [cudart, nccl]:
        if library:
            linked.append("lib/" + library.basename)
            rctx.symlink(library, linked[-1])

    if not cuda_h:
        cudart_missing = _where(cuda_includes, "cuda_runtime_api.h with crt/")
    else:
        cudart_missing = "" if cudart else _where(cuda_libs, "libcudart.so.13")
    if not nccl_h:
        nccl_missing = _where(nccl_includes, "nccl.h")
    else:
        nccl_missing = "" if nccl else _where(nccl_libs, "libnccl.so.2")

    rctx.file("config.bzl", "HAVE_CUDA = {}\nHAVE_NCCL = {}\n".format(bool(cuda_h), bool(nccl_h)))
    rctx.file("found/cuda_found.h", """// What links; *_MISSING says what was not found, and where.
#define STAGECOACH_LINKS_CUDART {}
#define STAGECOACH_CUDART_MISSING "{}"
#define STAGECOACH_LINKS_NCCL {}
#define STAGECOACH_NCCL_MISSING "{}"
""".format(1 if cudart else 0, cudart_missing, 1 if nccl else 0, nccl_missing))
    rctx.file("BUILD.bazel", """package(default_visibility = ["//visibility:public"])

cc_library(
    name = "cuda_headers",
    hdrs = {cuda_hdrs},
    defines = ["STAGECOACH_HAVE_CUDA_HEADERS={have_cuda}"],
    includes = {cuda_includes},
)

cc_library(
    name = "nccl_headers",
    hdrs = {nccl_hdrs},
    defines = ["STAGECOACH_HAVE_NCCL_HEADERS={have_nccl}"],
    includes = {nccl_includes},
    linkopts = ["-ldl"],
    deps = [":cuda_headers"],
)

cc_library(
    name = "linked",
    srcs = {linked},
    hdrs = ["found/cuda_found.h"],
    includes = ["found"],
    deps = [":nccl_headers"],
)
""".format(
        cuda_hdrs = 'glob(["include/*.h", "include/*.hpp", "include/crt/*"], exclude = ["include/nccl*"])' if cuda_h else "[]",
        cuda_includes = '["include"]' if cuda_h else "[]",
        have_cuda = 1 if cuda_h else 0,
        have_nccl = 1 if nccl_h else 0,
        nccl_hdrs = '["nccl/nccl.h"]' if nccl_h else "[]",
        nccl_includes = '["nccl"]' if nccl_h else "[]",
        linked = repr(linked),
    ))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    configure = True,
    environ = ["CUDA_HOME"],
    local = True,
)
