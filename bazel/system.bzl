"""Wraps a library installed from the distribution as a Bazel repository.

The headers live in the compiler's own include path, so Bazel does not track
them. Each target therefore also exports a generated marker header holding the
library's version: an upgrade changes every dependent action's cache key.
"""

def _pkg_config(rctx, args):
    pkg_config = rctx.which("pkg-config")
    if not pkg_config:
        fail("pkg-config is not installed: run scripts/setup.sh")
    return rctx.execute([pkg_config] + args)

def _system_repository_impl(rctx):
    build = ['package(default_visibility = ["//visibility:public"])\n']
    versions = []
    available = True
    for name, module in rctx.attr.targets.items():
        probe = _pkg_config(rctx, ["--print-errors", "--exists", module])
        if probe.return_code != 0:
            if not rctx.attr.optional:
                fail("@{}//:{} needs pkg-config module '{}' (Debian package: {}). Run scripts/setup.sh.\n{}".format(
                    rctx.name,
                    name,
                    module,
                    rctx.attr.apt,
                    probe.stderr,
                ))
            available = False
            build.append('cc_library(name = "{}", defines = ["STAGECOACH_HAVE_{}=0"])\n'.format(name, rctx.name.upper()))
            continue
        bare = module.split(" ")[0]
        versions.append("{} {}".format(bare, _pkg_config(rctx, ["--modversion", bare]).stdout.strip()))
        if name in rctx.attr.libs:
            linkopts = ["-l" + lib for lib in rctx.attr.libs[name]]
        else:
            linkopts = [
                flag
                for flag in _pkg_config(rctx, ["--libs-only-l", bare]).stdout.strip().split(" ")
                if flag
            ]
        defines = ["STAGECOACH_HAVE_{}=1".format(rctx.name.upper())] if rctx.attr.optional else []
        if rctx.attr.cflags:
            # A header-only library turned into a shared one by its distributor
            # says so in its -D flags.
            for flag in _pkg_config(rctx, ["--cflags-only-other", bare]).stdout.strip().split(" "):
                if flag.startswith("-D"):
                    defines.append(flag[2:])
        if name in rctx.attr.no_as_needed:
            linkopts = ["-Wl,--push-state,--no-as-needed"] + linkopts + ["-Wl,--pop-state"]
        build.append("""cc_library(
    name = "{name}",
    hdrs = ["version_{repo}.h"],
    defines = {defines},
    linkopts = {linkopts},
    testonly = {testonly},
    deps = {deps},
)
""".format(
            name = name,
            repo = rctx.name,
            defines = defines,
            linkopts = linkopts + rctx.attr.linkopts,
            testonly = rctx.attr.test_only,
            deps = rctx.attr.target_deps.get(name, []),
        ))
    rctx.file("version_{}.h".format(rctx.name), "// " + "\n// ".join(versions) + "\n")
    rctx.file("BUILD.bazel", "\n".join(build))

system_repository = repository_rule(
    implementation = _system_repository_impl,
    attrs = {
        "apt": attr.string(doc = "Debian packages to name in the error message."),
        "cflags": attr.bool(doc = "Pass pkg-config's -D flags on to dependents."),
        "libs": attr.string_list_dict(doc = "target -> library names, instead of pkg-config's"),
        "linkopts": attr.string_list(),
        "no_as_needed": attr.string_list(doc = "targets whose libraries register themselves at load time"),
        "optional": attr.bool(),
        "target_deps": attr.string_list_dict(),
        "targets": attr.string_dict(doc = "target -> pkg-config module", mandatory = True),
        "test_only": attr.bool(),
    },
    configure = True,
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
