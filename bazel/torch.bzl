"""libtorch out of the unpacked PyPI wheel.

Looks at $TORCH_HOME, then at .deps/torch in the workspace (made by scripts/setup.sh).
That folder holds torch/{include,lib} and nvidia/cu13/lib. Only the CPU part is
linked: libtorch_cuda.so, where there is one, is opened at run time.
"""

# Never expose the wheel's whole include/: it holds google/protobuf 3.13 and
# other third-party headers that would shadow the system's.
_HEADERS = ["ATen", "c10", "caffe2", "torch"]

_CPU = ["libtorch_cpu.so", "libc10.so", "libgomp.so.1"]
_NVIDIA = ["libcudart.so.13", "libcupti.so.13"]

def _torch_repository_impl(rctx):
    home = rctx.os.environ.get("TORCH_HOME")
    if home:
        root = rctx.path(home)
    else:
        root = rctx.path(Label("@stagecoach//:WORKSPACE")).realpath.dirname.get_child(".deps").get_child("torch")
    lib = root.get_child("torch").get_child("lib")
    include = root.get_child("torch").get_child("include")
    if not lib.get_child("libtorch_cpu.so").exists:
        fail("libtorch not found under {}. Run scripts/setup.sh, or point TORCH_HOME at an unpacked torch wheel.".format(root))

    for name in _HEADERS:
        rctx.symlink(include.get_child(name), "include/" + name)

    # One flat folder: libtorch's own RPATH ends in $ORIGIN, so its siblings
    # resolve inside Bazel's _solib folder with no LD_LIBRARY_PATH.
    cpu = []
    for name in _CPU:
        rctx.symlink(lib.get_child(name), "lib/" + name)
        cpu.append("lib/" + name)
    nvidia = root.get_child("nvidia").get_child("cu13").get_child("lib")
    for name in _NVIDIA:
        candidates = [nvidia.get_child(name), rctx.path(rctx.os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/lib64/" + name)]
        found = [path for path in candidates if path.exists]
        if not found:
            fail("{} (needed to load libtorch_cpu.so, even without a GPU) not found. Run scripts/setup.sh.".format(name))
        rctx.symlink(found[0], "lib/" + name)
        cpu.append("lib/" + name)

    rctx.template("BUILD.bazel", Label("@stagecoach//bazel:torch.BUILD.tpl"), {
        "%{cpu_libs}": repr(cpu),
    })

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    configure = True,
    environ = ["TORCH_HOME", "CUDA_HOME"],
    local = True,
)
