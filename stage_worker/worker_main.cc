#include "stage_worker/worker_main.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/failpoint_server.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process.h"
#include "base/status.h"
#include "base/tls_files.h"
#include "base/version.h"
#include "memory/accounting_allocator.h"
#include "memory/device_account.h"
#include "rpc/address.h"
#include "rpc/channel.h"
#include "rpc/tls_flags.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"
#include "stage_worker/engine/torch/torch_engine.h"
#include "stage_worker/generate/generate.h"
#include "stage_worker/job_logs.h"
#include "stage_worker/profile_command.h"
#include "stage_worker/transports.h"
#include "stage_worker/worker.h"
#include "transport/nccl/settings.h"

namespace stagecoach::worker {
namespace {

// Exit codes of docs/cli.md that a daemon can have.
constexpr int kExitInternal = 1;
constexpr int kExitUsage = 2;
constexpr int kExitVersionSkew = 5;
constexpr int kExitConflict = 6;

struct Flags {
  WorkerOptions worker;
  std::string engine = "torch";
  std::string cuda_library;
  std::string mapping_directory = TorchOptions().mapping_directory;
  std::string data_listen;
  bool tcp_checksum = false;
  std::string profile;
  std::string generate;
  std::string memory_cache = "4GiB";
  TlsFiles tls;
  transport::nccl::NcclSettings nccl;
  std::string ucx_library;
  std::string log_level = "info";
  bool log_json = false;
  int die_with_parent = 0;
  double drain_seconds = 20;
  bool check = false;
};

constexpr char kFooter[] =
    "Examples:\n"
    "  stagecoach-worker --coordinator 127.0.0.1:7070 --name w0\n"
    "  stagecoach-worker --coordinator 127.0.0.1:7070 --name gpu0 "
    "--device cuda:0\n"
    "  stagecoach-worker --coordinator head:7070 --listen 10.0.0.2:0 "
    "--tls-authority ca.pem --tls-certificate node.pem --tls-key node.key\n"
    "  stagecoach-worker --check --device cuda:0\n";

void AddFlags(CLI::App* app, Flags* flags) {
  app->footer(kFooter);
  app->set_version_flag(
      "--version", absl::StrCat("stagecoach-worker ", kVersion, " (protocol ",
                                kProtocolVersion, ")"));
  app->add_flag("--check", flags->check,
                "Load the engine, open --device, say what was found, and end");
  app->add_option("--coordinator", flags->worker.coordinator,
                  "Address of the coordinator")
      ->capture_default_str();
  app->add_option("--name", flags->worker.name,
                  "Name of this worker, unique in the cluster "
                  "(default: host and process id)");
  app->add_option("--listen", flags->worker.listen,
                  "Address that other workers reach this one at")
      ->capture_default_str();
  app->add_flag("--allow-plaintext", flags->worker.allow_plaintext,
                "Let --coordinator, --listen and --data-listen be more than "
                "loopback addresses, and NCCL and UCX reach other machines, "
                "without encryption");
  rpc::AddTlsFlags(app, &flags->tls);
  app->add_option("--data-listen", flags->data_listen,
                  "Host that the data path over TCP listens on "
                  "(default: that of --listen)");
  app->add_flag("--tcp-checksum", flags->tcp_checksum,
                "Checksum tensors over TCP also within one host; between "
                "hosts they always are");
  app->add_option("--device", flags->worker.device, "cpu, or cuda:N")
      ->capture_default_str();
  app->add_option("--engine", flags->engine,
                  "torch, or synthetic (no model: checks schedules and paths)")
      ->check(CLI::IsMember({"torch", "synthetic"}))
      ->capture_default_str();
  app->add_option("--cuda-library", flags->cuda_library,
                  "Path of libtorch_cuda.so (default: beside libtorch_cpu.so)");
  app->add_option("--profile", flags->profile,
                  "Measure the model of the job spec in this file (a "
                  "serialized JobSpec), print the profile as JSON and exit");
  app->add_option("--generate", flags->generate,
                  "Continue the tokens of the request in this file (JSON), "
                  "print one token a line and exit");
  app->add_option("--nccl-library", flags->nccl.nccl_library,
                  "libnccl.so.2 for transport = \"nccl\": a path, or a name "
                  "that the dynamic linker finds")
      ->envname("STAGECOACH_NCCL_LIBRARY")
      ->capture_default_str();
  app->add_option("--cuda-runtime-library", flags->nccl.cuda_runtime_library,
                  "libcudart.so.13 for transport = \"nccl\", likewise")
      ->envname("STAGECOACH_CUDA_RUNTIME_LIBRARY")
      ->capture_default_str();
  app->add_flag("--nccl-share-gpu", flags->nccl.share_gpu,
                "Let two workers of a job be on one GPU, if NCCL does");
  app->add_flag("--nccl-registered-buffers", flags->nccl.registered_buffers,
                "Receive into memory that is registered with NCCL");
  app->add_option("--ucx-library", flags->ucx_library,
                  "libucp.so.0: offer UCX too, which is then taken before tcp; "
                  "a path, or a name that the dynamic linker finds "
                  "(default: do not)")
      ->envname("STAGECOACH_UCX_LIBRARY");
  app->add_option("--memory-cache", flags->memory_cache,
                  "Freed memory that is kept for the next blocks of the same "
                  "size, at most; 0: none")
      ->envname("STAGECOACH_MEMORY_CACHE")
      ->capture_default_str();
  app->add_option("--mapping-directory", flags->mapping_directory,
                  "Folder on a local disk for memory.optimizer = \"mapped\"")
      ->envname("STAGECOACH_MAPPING_DIRECTORY")
      ->capture_default_str();
  app->add_flag("--poison-freed", flags->worker.parts.poison,
                "Fill freed memory with NaN, to find late readers (slow)");
  flags->worker.parts.produce_in_place = true;
  app->add_flag("--in-place,!--no-in-place",
                flags->worker.parts.produce_in_place,
                "Produce outputs in their receiver's memory over shared memory "
                "(default); with --no-in-place each is copied once")
      ->envname("STAGECOACH_IN_PLACE");
  app->add_option("--log-level", flags->log_level,
                  "debug, info, warning, error or off")
      ->capture_default_str();
  app->add_flag("--log-json", flags->log_json, "Log lines as JSON");
  app->add_option("--drain-seconds", flags->drain_seconds,
                  "A SIGTERM waits so long, at most, for the job to be moved "
                  "to other workers; 0: not at all")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app->add_option("--die-with-parent", flags->die_with_parent,
                  "End when the process with this id, our parent, ends");
}

int Fail(int code, const absl::Status& status) {
  std::fprintf(stderr, "stagecoach-worker: %s\n",
               std::string(status.message()).c_str());
  return code;
}

absl::Status ChooseEngine(Flags* flags) {
  PlacementParts& parts = flags->worker.parts;
  if (flags->engine == "synthetic") {
    parts.engine_factory = [](const EngineOptions& options) {
      return NewSyntheticEngine(
          SyntheticOptions(), &memory::AccountingAllocator::Process(), options);
    };
    return absl::OkStatus();
  }
  TorchOptions torch;
  torch.device = flags->worker.device;
  torch.cuda_library = flags->cuda_library;
  torch.mapping_directory = flags->mapping_directory;
  absl::Status status = InitTorch(torch);
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<memory::DeviceAccount>> device =
      ObserveTorchDevice(torch);
  if (device.ok()) {
    // Never destroyed: torch tells it of frees as long as there is a process.
    parts.device = device->release();
  } else {
    LogWarning(absl::StrCat("figures of the device's memory are missing: ",
                            device.status().message()));
  }
  flags->worker.torch_version = TorchVersion();
  parts.engine_factory = [torch](const EngineOptions& options) {
    return NewTorchEngine(torch, options);
  };
  parts.profile_memory = true;
  return absl::OkStatus();
}

// A stuck abort leaves buffers that a peer may still write: nothing in this
// process can be trusted with them.
void EndProcess(const absl::Status& why) {
  LogError(why.message());
  _exit(kExitInternal);
}

void ChooseNccl(Flags* flags, TransportSettings* settings) {
  transport::nccl::NcclSettings& nccl = flags->nccl;
  nccl.engine_on_host = !absl::StartsWith(flags->worker.device, "cuda");
  absl::string_view index = flags->worker.device;
  if (absl::ConsumePrefix(&index, "cuda:") &&
      !absl::SimpleAtoi(index, &nccl.device)) {
    nccl.device = -1;  // ChooseEngine says what is wrong with it
  }
  nccl.on_stuck = EndProcess;
  settings->nccl = nccl;
}

void ChooseUcx(const Flags& flags, TransportSettings* settings) {
  if (flags.ucx_library.empty()) return;
  settings->ucx.emplace();
  settings->ucx->library = flags.ucx_library;
  settings->ucx->loopback_only = !flags.worker.allow_plaintext;
  settings->ucx->on_stuck = EndProcess;
}

absl::Status ChooseTransports(Flags* flags) {
  TransportSettings settings;
  SC_ASSIGN_OR_RETURN(settings.tls, rpc::TlsInUse());
  settings.allow_plaintext = flags->worker.allow_plaintext;
  settings.tcp_checksum = flags->tcp_checksum;
  if (!flags->data_listen.empty()) {
    settings.data_host = flags->data_listen;
  } else {
    SC_ASSIGN_OR_RETURN(const rpc::Address listen,
                        rpc::ParseAddress(flags->worker.listen));
    if (!listen.is_unix) settings.data_host = listen.host;
  }
  ChooseNccl(flags, &settings);
  ChooseUcx(*flags, &settings);
  SC_ASSIGN_OR_RETURN(flags->worker.location, transport::Location::Here());
  SC_ASSIGN_OR_RETURN(flags->worker.parts.transports,
                      BuiltInTransports(settings));
  return absl::OkStatus();
}

absl::Status ChooseParts(Flags* flags) {
  PlacementParts& parts = flags->worker.parts;
  memory::AccountingAllocator::Options memory;
  memory.poison_freed = parts.poison;
  SC_ASSIGN_OR_RETURN(memory.cache_bytes, ParseByteSize(flags->memory_cache));
  parts.allocator = &memory::AccountingAllocator::Process();
  parts.allocator->Configure(memory);
  parts.clock = Clock::Real();
  parts.data_factory = OpenData;
  SC_RETURN_IF_ERROR(ChooseTransports(flags));
  return ChooseEngine(flags);
}

// Where a signal goes: it may come before the worker exists and after it ended.
class StopTarget {
 public:
  bool stopped() {
    MutexLock lock(&mu_);
    return signals_ > 0;
  }
  void OnSignal() {
    MutexLock lock(&mu_);
    // The second signal does not wait for anything.
    if (++signals_ > 1) _exit(kExitInternal);
    if (worker_ != nullptr) Drain();
  }
  void set_drain_limit(absl::Duration limit) {
    MutexLock lock(&mu_);
    drain_limit_ = limit;
  }
  void Attach(Worker* worker) {
    MutexLock lock(&mu_);
    worker_ = worker;
    if (worker_ != nullptr && signals_ > 0) Drain();
  }

 private:
  void Drain() SC_REQUIRES(mu_) {
    if (drain_limit_ > absl::ZeroDuration()) {
      worker_->Drain(drain_limit_);
    } else {
      worker_->Stop(absl::OkStatus());
    }
  }

  Mutex mu_;
  int signals_ SC_GUARDED_BY(mu_) = 0;
  Worker* worker_ SC_GUARDED_BY(mu_) = nullptr;
  absl::Duration drain_limit_ SC_GUARDED_BY(mu_);
};

int Profile(const Flags& flags, StopTarget* stop) {
  const auto json = ProfileAsJson(flags.worker.parts, flags.profile,
                                  [stop] { return stop->stopped(); });
  if (!json.ok()) {
    return Fail(
        absl::IsInvalidArgument(json.status()) ? kExitUsage : kExitInternal,
        json.status());
  }
  std::printf("%s\n", json->c_str());
  return 0;
}

int GenerateTokens(const Flags& flags, StopTarget* stop) {
  const absl::Status status =
      GenerateToStdout(flags.generate, [stop] { return stop->stopped(); });
  if (status.ok()) return 0;
  return Fail(absl::IsInvalidArgument(status) || absl::IsNotFound(status)
                  ? kExitUsage
                  : kExitInternal,
              status);
}

// The engine and the device are there: their names, for doctors.
int ReportCheck(const Flags& flags) {
  std::printf("engine %s\ndevice %s\n", flags.engine.c_str(),
              flags.worker.device.c_str());
  if (!flags.worker.torch_version.empty()) {
    std::printf("torch %s\n", flags.worker.torch_version.c_str());
  }
  return 0;
}

int Run(const Flags& flags, StopTarget* stop) {
  auto worker = Worker::Start(flags.worker);
  if (!worker.ok()) {
    const bool taken = absl::IsAlreadyExists(worker.status());
    return Fail(taken ? kExitConflict : kExitUsage, worker.status());
  }
  stop->set_drain_limit(absl::Seconds(flags.drain_seconds));
  stop->Attach(worker->get());
  const absl::Status status = (*worker)->Wait();
  stop->Attach(nullptr);
  if (absl::IsFailedPrecondition(status)) return Fail(kExitVersionSkew, status);
  if (absl::IsAlreadyExists(status)) return Fail(kExitConflict, status);
  return status.ok() ? 0 : Fail(kExitInternal, status);
}

}  // namespace

int WorkerMain(int argc, char** argv,
               const std::function<void(PlacementParts*)>& customise) {
  Flags flags;
  CLI::App app("A stage worker: runs pipeline stages on one device.");
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  DieWithParent(flags.die_with_parent);
  // Before any thread is started; lives as long as the process.
  auto* const stop = new StopTarget;
  OnTerminationSignal([stop](int) { stop->OnSignal(); });
  if (flags.worker.name.empty()) {
    flags.worker.name = absl::StrCat("worker-", getpid());
  }
  LogOptions log;
  log.json = flags.log_json;
  log.process = absl::StrCat("worker ", flags.worker.name);
  if (!ParseLogLevel(flags.log_level, &log.level)) {
    return Fail(kExitUsage, absl::InvalidArgumentError(absl::StrCat(
                                "--log-level ", flags.log_level,
                                ": use debug, info, warning, error or off")));
  }
  // Never deleted: threads may log while the process ends.
  auto* const logs = new JobLogs;
  flags.worker.logs = logs;
  log.observer = [logs](const LogFields& fields, absl::string_view line) {
    if (!fields.job.empty()) logs->Append(fields.job, line);
  };
  InitLog(log);
  if (absl::Status status = ServeFailpoints(); !status.ok()) {
    return Fail(kExitUsage, status);
  }
  const bool serves =
      !flags.check && flags.generate.empty() && flags.profile.empty();
  if (serves) {
    const absl::Status status = rpc::UseTlsOf(flags.tls);
    if (!status.ok()) return Fail(kExitUsage, status);
  }
  if (absl::Status status = ChooseParts(&flags); !status.ok()) {
    return Fail(kExitUsage, status);
  }
  if (flags.check) return ReportCheck(flags);
  if (customise) customise(&flags.worker.parts);
  if (!flags.generate.empty()) return GenerateTokens(flags, stop);
  return flags.profile.empty() ? Run(flags, stop) : Profile(flags, stop);
}

}  // namespace stagecoach::worker
