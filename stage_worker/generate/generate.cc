#include "stage_worker/generate/generate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "stage_worker/generate/language_model.h"
#include "stage_worker/generate/sampler.h"

namespace stagecoach::worker {
namespace {

constexpr int64_t kMostRequestBytes = int64_t{64} << 20;

}  // namespace

absl::Status Generate(const GenerateRequest& request,
                      const std::function<void(int64_t token)>& on_token,
                      const std::function<bool()>& cancelled) {
  at::set_num_threads(static_cast<int>(request.threads));
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                      LanguageModel::Open(request.checkpoint));
  Sampler::Options sampling;
  sampling.temperature = request.temperature;
  sampling.top_k = request.top_k;
  sampling.seed = request.seed;
  Sampler sampler(sampling);
  std::vector<int64_t> tokens = request.prompt;
  for (int64_t i = 0; i < request.tokens && !cancelled(); ++i) {
    SC_ASSIGN_OR_RETURN(std::vector<float> logits, model->NextLogits(tokens));
    const size_t limit = static_cast<size_t>(request.token_limit);
    if (limit > 0 && limit < logits.size()) logits.resize(limit);
    const int64_t token = sampler.Choose(logits);
    on_token(token);
    tokens.push_back(token);
    if (std::find(request.stop.begin(), request.stop.end(), token) !=
        request.stop.end()) {
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status GenerateToStdout(const std::string& file,
                              const std::function<bool()>& cancelled) {
  SC_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(file, kMostRequestBytes));
  SC_ASSIGN_OR_RETURN(const GenerateRequest request,
                      GenerateRequestFromJson(text));
  const auto print = [](int64_t token) {
    std::printf("%" PRId64 "\n", token);
    std::fflush(stdout);
  };
  return Generate(request, print, cancelled);
}

}  // namespace stagecoach::worker
