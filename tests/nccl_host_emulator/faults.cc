#include "tests/nccl_host_emulator/faults.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "tests/nccl_host_emulator/emulator_control.h"

namespace nccl_host_emulator {
namespace {

bool ParseNumber(const std::string& text, int* number) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  *number = static_cast<int>(value);
  return !text.empty() && *end == '\0';
}

bool ParseFault(const std::string& text, Fault* fault) {
  const size_t colon = text.find(':');
  const std::string word = text.substr(0, colon);
  if (word == "hang") {
    fault->kind = Fault::Kind::kHang;
    return colon == std::string::npos;
  }
  if (word == "fail") fault->kind = Fault::Kind::kFail;
  if (word == "async") fault->kind = Fault::Kind::kAsync;
  if (word == "delay") fault->kind = Fault::Kind::kDelay;
  return fault->kind != Fault::Kind::kNone && colon != std::string::npos &&
         ParseNumber(text.substr(colon + 1), &fault->value);
}

}  // namespace

Faults& Faults::Get() {
  // Never destroyed: streams' threads use it to the very end.
  static Faults* const faults = [] {
    auto* const made = new Faults;
    const char* const text = std::getenv("NCCL_HOST_EMULATOR");
    if (text != nullptr && !made->Set(text)) {
      std::fprintf(stderr, "NCCL_HOST_EMULATOR is not understood: %s\n", text);
      std::abort();
    }
    return made;
  }();
  return *faults;
}

bool Faults::Parse(const std::string& text, std::vector<Entry>* entries,
                   std::map<std::string, int>* settings) {
  std::istringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ';')) {
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = part.substr(0, equals);
    const std::string value = part.substr(equals + 1);
    int number = 0;
    if (ParseNumber(value, &number)) {
      (*settings)[name] = number;
      continue;
    }
    Entry entry;
    const size_t at = name.find('@');
    entry.call = name.substr(0, at);
    if (at != std::string::npos &&
        !ParseNumber(name.substr(at + 1), &entry.nth)) {
      return false;
    }
    if (!ParseFault(value, &entry.fault)) return false;
    entries->push_back(std::move(entry));
  }
  return true;
}

bool Faults::Set(const std::string& text) {
  std::vector<Entry> entries;
  std::map<std::string, int> settings;
  if (!Parse(text, &entries, &settings)) return false;
  std::lock_guard<std::mutex> lock(mu_);
  entries_ = std::move(entries);
  settings_ = std::move(settings);
  calls_.clear();
  const auto seed = settings_.find("jitter");
  if (seed != settings_.end()) {
    random_.seed(static_cast<uint64_t>(seed->second));
  }
  ++generation_;
  changed_.notify_all();
  return true;
}

Fault Faults::Take(const char* call, int device) {
  const std::string name = call;
  const std::string on_device = name + "/" + std::to_string(device);
  std::lock_guard<std::mutex> lock(mu_);
  const int count = ++calls_[name];
  const int device_count = ++calls_[on_device];
  changed_.notify_all();
  for (const Entry& entry : entries_) {
    if ((entry.call == name && (entry.nth == 0 || entry.nth == count)) ||
        (entry.call == on_device &&
         (entry.nth == 0 || entry.nth == device_count))) {
      return entry.fault;
    }
  }
  return Fault();
}

int Faults::Calls(const std::string& call) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

bool Faults::AwaitCalls(const std::string& call, int count, int milliseconds) {
  std::unique_lock<std::mutex> lock(mu_);
  return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                           [&] { return calls_[call] >= count; });
}

int Faults::Setting(const char* name, int otherwise) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = settings_.find(name);
  return found == settings_.end() ? otherwise : found->second;
}

void Faults::Hang() {
  std::unique_lock<std::mutex> lock(mu_);
  const uint64_t before = generation_;
  while (generation_ == before) changed_.wait(lock);
}

int Faults::JitterMicroseconds() {
  std::lock_guard<std::mutex> lock(mu_);
  if (settings_.count("jitter") == 0) return 0;
  return static_cast<int>(random_() % 2000);
}

void Faults::AddMisuse(const std::string& what) {
  std::lock_guard<std::mutex> lock(mu_);
  misuses_.push_back(what);
  // Also for those who cannot ask.
  std::fprintf(stderr, "nccl_host_emulator: misuse: %s\n", what.c_str());
}

std::vector<std::string> Faults::TakeMisuses() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(misuses_, {});
}

}  // namespace nccl_host_emulator

using nccl_host_emulator::Faults;

int nccl_host_emulator_set(const char* text) {
  return Faults::Get().Set(text) ? 0 : 1;
}

int nccl_host_emulator_take_misuses(char* text, size_t size) {
  const std::vector<std::string> misuses = Faults::Get().TakeMisuses();
  std::string all;
  for (const std::string& misuse : misuses) all += misuse + "\n";
  if (size > 0) std::snprintf(text, size, "%s", all.c_str());
  return static_cast<int>(misuses.size());
}

int nccl_host_emulator_await_calls(const char* name, int count,
                                   int milliseconds) {
  return Faults::Get().AwaitCalls(name, count, milliseconds) ? 1 : 0;
}

int nccl_host_emulator_calls(const char* name) {
  return Faults::Get().Calls(name);
}
