"""Every external repository of the workspace. Nothing here uses the network."""

load("//bazel:cuda.bzl", "cuda_repository")
load("//bazel:python.bzl", "python_repository")
load("//bazel:system.bzl", "system_repository")
load("//bazel:torch.bzl", "torch_repository")
load("//bazel:ucx.bzl", "ucx_repository")

# Debian's absl 20220623 has no absl/log and no absl/check.
_ABSEIL = [
    "any_invocable",
    "base",
    "bind_front",
    "cleanup",
    "cord",
    "core_headers",
    "fixed_array",
    "flags",
    "flags_parse",
    "flat_hash_map",
    "flat_hash_set",
    "function_ref",
    "hash",
    "inlined_vector",
    "memory",
    "optional",
    "random_random",
    "span",
    "status",
    "statusor",
    "str_format",
    "strings",
    "synchronization",
    "time",
]

def stagecoach_repositories():
    for shim in ["rules_cc", "rules_java", "rules_proto", "remote_coverage_tools"]:
        native.local_repository(name = shim, path = "bazel/shims/" + shim)

    system_repository(
        name = "abseil",
        apt = "libabsl-dev",
        targets = {name: "absl_" + name for name in _ABSEIL},
    )
    system_repository(
        name = "protobuf",
        apt = "libprotobuf-dev",
        targets = {"protobuf": "protobuf >= 3.21"},
    )
    system_repository(
        name = "grpc",
        apt = "libgrpc++-dev",
        # pkg-config's list names gRPC's private static dependencies too; the
        # generated code and the headers need only these.
        libs = {
            "grpc++": ["grpc++", "grpc", "gpr", "absl_synchronization"],
            "grpc++_reflection": ["grpc++_reflection"],
        },
        no_as_needed = ["grpc++_reflection"],
        targets = {"grpc++": "grpc++ >= 1.51", "grpc++_reflection": "grpc++ >= 1.51"},
        target_deps = {
            "grpc++": ["@protobuf//:protobuf"],
            "grpc++_reflection": [":grpc++"],
        },
    )
    system_repository(
        name = "googletest",
        apt = "libgtest-dev libgmock-dev",
        # Static and ordered: main, gmock, gtest.
        libs = {
            "gtest": ["gmock", "gtest"],
            "gtest_main": ["gmock_main", "gmock", "gtest"],
        },
        linkopts = ["-pthread"],
        targets = {"gtest": "gmock", "gtest_main": "gmock_main"},
        test_only = True,
    )
    system_repository(
        name = "benchmark",
        apt = "libbenchmark-dev",
        libs = {
            "benchmark": ["benchmark"],
            "benchmark_main": ["benchmark_main", "benchmark"],
        },
        linkopts = ["-pthread"],
        targets = {"benchmark": "benchmark", "benchmark_main": "benchmark"},
    )
    system_repository(
        name = "nlohmann_json",
        apt = "nlohmann-json3-dev",
        targets = {"json": "nlohmann_json"},
    )
    system_repository(
        name = "cli11",
        apt = "libcli11-dev",
        targets = {"cli11": "CLI11"},
    )
    system_repository(
        name = "tomlplusplus",
        apt = "libtomlplusplus-dev",
        cflags = True,
        targets = {"tomlplusplus": "tomlplusplus"},
    )
    system_repository(
        name = "spdlog",
        apt = "libspdlog-dev",
        cflags = True,
        targets = {"spdlog": "spdlog"},
    )
    system_repository(
        name = "openssl",
        apt = "libssl-dev",
        targets = {
            "crypto": "libcrypto",
            "ssl": "libssl",
        },
    )
    system_repository(
        name = "sqlite",
        apt = "libsqlite3-dev",
        targets = {"sqlite3": "sqlite3 >= 3.40"},
    )
    system_repository(
        name = "zlib",
        apt = "zlib1g-dev",
        targets = {"zlib": "zlib"},
    )
    torch_repository(name = "torch")
    cuda_repository(name = "cuda")
    ucx_repository(name = "ucx")
    python_repository(name = "python_packages")
