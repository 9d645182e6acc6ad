#ifndef STAGECOACH_RPC_CHANNEL_SETTINGS_H_
#define STAGECOACH_RPC_CHANNEL_SETTINGS_H_

#include <grpc/grpc.h>

namespace stagecoach::rpc {

// Larger things are streamed in pieces.
inline constexpr int kMaxMessageBytes = 4 * 1024 * 1024;

// A connection on which nothing arrives for so long is probed, and given up if
// the probe stays unanswered. Death of a worker is noticed by heartbeats long
// before; this ends half-open connections.
inline constexpr int kKeepaliveMilliseconds = 20'000;
inline constexpr int kKeepaliveTimeoutMilliseconds = 10'000;
// The most frequent pings that a server takes without objection.
inline constexpr int kPingIntervalToleratedMilliseconds = 5'000;

struct ChannelSetting {
  const char* name;
  int value;
};

// Given to every server and every channel alike: a long idle stream is cut
// ("too_many_pings") when one end pings more often than the other tolerates.
inline constexpr ChannelSetting kChannelSettings[] = {
    {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMaxMessageBytes},
    {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, kMaxMessageBytes},
    // Error messages (a verifier's refusal) travel as metadata.
    {GRPC_ARG_MAX_METADATA_SIZE, 64 * 1024},
    {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMilliseconds},
    {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
    {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},  // no limit
    {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
     kPingIntervalToleratedMilliseconds},
    {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},  // never cuts the stream
    // A taken port is an error, not a second listener that gets some of the
    // connections.
    {GRPC_ARG_ALLOW_REUSEPORT, 0},
    // http_proxy is for the web, not for workers of a cluster.
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
    {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100},
    {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000},
    {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000},
};

}  // namespace stagecoach::rpc

#endif  // STAGECOACH_RPC_CHANNEL_SETTINGS_H_
