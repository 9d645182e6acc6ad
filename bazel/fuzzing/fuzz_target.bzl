"""One fuzz target from one source file."""

def fuzz_target(name, deps = [], size = "small", data = []):
    """A fuzz target, run in two ways.

    NAME.cc defines LLVMFuzzerTestOneInput. From it come
      * NAME, the libFuzzer program: scripts/fuzz.sh builds it with --config=fuzz;
      * NAME_corpus_test, which replays the folder NAME_corpus in every build.
    NAME.dict beside it is the fuzzer's dictionary, if it is there.

    Args:
      name: ends with _fuzz
      deps: of the source file
      size: of the test
      data: files that both read
    """
    if not name.endswith("_fuzz"):
        fail("the name of a fuzz target ends with _fuzz")
    corpus = name + "_corpus"
    native.cc_library(
        name = name + "_entry",
        testonly = True,
        srcs = [name + ".cc"],
        deps = deps + ["//bazel/fuzzing:fuzz_input"],
    )
    native.cc_binary(
        name = name,
        testonly = True,
        data = data,
        linkopts = ["-fsanitize=fuzzer"],
        tags = [
            "fuzz",
            "manual",
        ],
        deps = [":" + name + "_entry"],
    )
    native.cc_test(
        name = corpus + "_test",
        size = size,
        args = [native.package_name() + "/" + corpus],
        data = data + native.glob([corpus + "/*"]),
        deps = [
            ":" + name + "_entry",
            "//bazel/fuzzing:replay",
        ],
    )
