#ifndef STAGECOACH_TESTS_FAULTS_PROXY_H_
#define STAGECOACH_TESTS_FAULTS_PROXY_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace stagecoach::testing {

// A TCP proxy on a loopback address that a test scripts: what it does to every
// connection through it, those to come too. Bytes are never lost or changed, as
// TCP has it: held ones go on when they are let go, a cut ends a connection.
// Thread-safe; destroyed: all connections end.
class Proxy {
 public:
  enum class Way { kToServer, kToClient };

  // In front of `server`, "127.0.0.1:PORT".
  static absl::StatusOr<std::unique_ptr<Proxy>> Start(
      const std::string& server);
  ~Proxy();

  const std::string& address() const { return address_; }
  // A partition: nothing goes this way any more, and new connections hang.
  void Hold(Way way) { hold_[Index(way)] = true; }
  void LetGo(Way way) { hold_[Index(way)] = false; }
  void HoldBoth() {
    Hold(Way::kToServer);
    Hold(Way::kToClient);
  }
  void LetGoBoth() {
    LetGo(Way::kToServer);
    LetGo(Way::kToClient);
  }
  // Each piece of bytes waits so long before it goes on.
  void Delay(int milliseconds) { delay_ms_ = milliseconds; }
  // Ends every connection there is. How many.
  int Cut();

 private:
  struct Connection {
    int client = -1;
    int server = -1;
    std::atomic<bool> over{false};
    std::vector<std::thread> pumps;
  };
  Proxy() = default;
  static size_t Index(Way way) { return way == Way::kToServer ? 0 : 1; }
  void Accept();
  void Open(int client);
  void Pump(Connection* connection, Way way);

  std::string address_;
  int server_port_ = 0;
  int listener_ = -1;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> hold_[2] = {{false}, {false}};
  std::atomic<int> delay_ms_{0};
  std::thread acceptor_;
  Mutex mu_;
  std::vector<std::unique_ptr<Connection>> connections_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_FAULTS_PROXY_H_
