"""cc_proto_library and cc_grpc_library, with the system's protoc.

Every .proto lives under proto/, which is protoc's only import root: files
import each other, and are included, by their path below it:

    import "stagecoach/v1/schedule.proto";
    #include "stagecoach/v1/schedule.pb.h"

`deps` names other cc_proto_library / cc_grpc_library targets, in any package.
"""

ProtoFilesInfo = provider(fields = ["transitive"])

def _impl(ctx):
    imports = depset(transitive = [dep[ProtoFilesInfo].transitive for dep in ctx.attr.deps])
    plugins = [".pb"]
    args = ctx.actions.args()
    out = ctx.bin_dir.path + "/proto"
    args.add("-Iproto")
    args.add("--cpp_out=" + out)
    if ctx.attr.grpc:
        plugins.append(".grpc.pb")
        args.add("--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin")
        args.add("--grpc_out={}{}".format("generate_mock_code=true:" if ctx.attr.mocks else "", out))
    hdrs, srcs = [], []
    for proto in ctx.files.srcs:
        if proto.owner.package != ctx.label.package or proto.owner.workspace_name:
            fail("{} is not in this package".format(proto.short_path))
        stem = proto.basename[:-len(".proto")]
        for plugin in plugins:
            hdrs.append(ctx.actions.declare_file(stem + plugin + ".h"))
            srcs.append(ctx.actions.declare_file(stem + plugin + ".cc"))
        if ctx.attr.grpc and ctx.attr.mocks:
            hdrs.append(ctx.actions.declare_file(stem + "_mock.grpc.pb.h"))
    args.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = "/usr/bin/protoc",
        arguments = [args],
        inputs = depset(ctx.files.srcs, transitive = [imports]),
        outputs = hdrs + srcs,
        mnemonic = "ProtocCpp",
        progress_message = "Generating C++ for %s" % ctx.label,
    )
    return [
        DefaultInfo(files = depset(hdrs + srcs)),
        OutputGroupInfo(hdrs = depset(hdrs), srcs = depset(srcs)),
        ProtoFilesInfo(transitive = depset(ctx.files.srcs, transitive = [imports])),
    ]

_protoc = rule(
    implementation = _impl,
    attrs = {
        "deps": attr.label_list(providers = [ProtoFilesInfo]),
        "grpc": attr.bool(),
        "mocks": attr.bool(),
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
    },
)

def _files_of(label):
    """//a/b -> //a/b:b_protoc, :x -> :x_protoc"""
    if ":" not in label:
        label = label + ":" + label.split("/")[-1]
    return label + "_protoc"

def _library(name, srcs, deps, grpc, mocks, libs, **kwargs):
    _protoc(
        name = name + "_protoc",
        srcs = srcs,
        deps = [_files_of(dep) for dep in deps],
        grpc = grpc,
        mocks = mocks,
        visibility = ["//visibility:public"],
    )
    for group in ["hdrs", "srcs"]:
        native.filegroup(
            name = "{}_{}".format(name, group),
            srcs = [name + "_protoc"],
            output_group = group,
            visibility = ["//visibility:private"],
        )
    native.cc_library(
        name = name,
        srcs = [name + "_srcs"],
        hdrs = [name + "_hdrs"],
        strip_include_prefix = "/proto",
        deps = deps + libs,
        **kwargs
    )

def cc_proto_library(name, srcs, deps = [], **kwargs):
    _library(name, srcs, deps, False, False, ["@protobuf//:protobuf"], **kwargs)

def cc_grpc_library(name, srcs, deps = [], mocks = False, **kwargs):
    _library(name, srcs, deps, True, mocks, ["@grpc//:grpc++"], **kwargs)
