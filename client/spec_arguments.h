#ifndef STAGECOACH_CLIENT_SPEC_ARGUMENTS_H_
#define STAGECOACH_CLIENT_SPEC_ARGUMENTS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "job/parse.h"
#include "job/plan.h"

namespace stagecoach::client {

// `SPEC [--set key=value]... [--transport T]`, as several verbs take them.
struct SpecArguments {
  std::string file;
  std::vector<std::string> overrides;
  std::string transport;
};

// `arguments` must live as long as `verb`.
void AddSpecArguments(CLI::App* verb, SpecArguments* arguments);

// `--resume`.
void AddResumeFlag(CLI::App* verb, bool* resume);

// A spec that everything about it that can be known before anything starts has
// been checked of.
struct CheckedSpec {
  job::ParsedSpec parsed;
  job::JobPlan plan;

  const job::JobSpec& spec() const { return parsed.spec; }
};

// Reads, validates and plans. kInvalidArgument "file:line:column: ..." for all
// that is wrong with it, also a file that cannot be read.
absl::StatusOr<CheckedSpec> LoadSpec(const SpecArguments& arguments);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_SPEC_ARGUMENTS_H_
