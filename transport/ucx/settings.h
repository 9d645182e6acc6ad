#ifndef STAGECOACH_TRANSPORT_UCX_SETTINGS_H_
#define STAGECOACH_TRANSPORT_UCX_SETTINGS_H_

#include <map>
#include <string>

#include "transport/two_sided/limits.h"

namespace stagecoach::transport::ucx {

// What a worker's operator decides about the UCX path.
struct UcxSettings : two_sided::Limits {
  // Opened at run time: a path, or a name that the dynamic linker finds.
  std::string library = "libucp.so.0";
  // UCX encrypts nothing and listens on every network that it may use. With
  // this it may use only the loopback interface.
  bool loopback_only = true;
  // UCX's own settings, without "UCX_" ("TLS": "tcp"). They come before those
  // of the environment.
  std::map<std::string, std::string> configuration;
};

}  // namespace stagecoach::transport::ucx

#endif  // STAGECOACH_TRANSPORT_UCX_SETTINGS_H_
