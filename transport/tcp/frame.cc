#include "transport/tcp/frame.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/tcp/crc32c.h"

namespace stagecoach::transport::tcp {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "frames are the structures as they lie in memory");

// Far beyond any run; keeps sums far from overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 62;
constexpr size_t kMaxMessageBytes = 1000;
constexpr uint32_t kMaxCode =
    static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);

class BodyWriter {
 public:
  template <typename T>
  BodyWriter& Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    body_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  BodyWriter& Put(absl::string_view bytes) {
    body_.append(bytes.data(), bytes.size());
    return *this;
  }
  std::string Take() { return std::move(body_); }

 private:
  std::string body_;
};

// Reads fields one after the other; once there are too few bytes every read
// gives zeros and Finish() an error.
class BodyReader {
 public:
  explicit BodyReader(absl::string_view body) : rest_(body) {}
  template <typename T>
  T Get() {
    T value{};
    Copy(&value, sizeof(value));
    return value;
  }
  absl::string_view Bytes(size_t count) {
    if (count > rest_.size()) return Fail();
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  void Copy(void* to, size_t count) {
    const absl::string_view bytes = Bytes(count);
    if (ok_) std::memcpy(to, bytes.data(), bytes.size());
  }
  // Nothing may be left over.
  absl::Status Finish(const char* what) const {
    if (ok_ && rest_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("tcp: ", what, " of a wrong length"));
  }

 private:
  absl::string_view Fail() {
    ok_ = false;
    return {};
  }
  absl::string_view rest_;
  bool ok_ = true;
};

absl::Status Impossible(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tcp: ", what, " with impossible numbers"));
}

uint32_t CheckOf(FrameHeader header, absl::string_view body) {
  header.check = 0;
  return ExtendCrc32c(Crc32c(&header, sizeof(header)), body.data(),
                      body.size());
}

bool CarriesPayload(uint8_t type) {
  return type == static_cast<uint8_t>(FrameType::kPayload);
}

}  // namespace

void AppendFrame(FrameType type, uint32_t edge, absl::string_view body,
                 std::string* out, uint64_t payload_bytes) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.edge = edge;
  header.body_bytes = static_cast<uint32_t>(body.size());
  header.payload_bytes = payload_bytes;
  header.check = CheckOf(header, body);
  out->append(reinterpret_cast<const char*>(&header), sizeof(header));
  out->append(body.data(), body.size());
}

HeaderFault CheckHeader(const FrameHeader& header) {
  if (header.magic != kMagic) return HeaderFault::kNotOurs;
  if (header.version != kVersion) return HeaderFault::kOtherVersion;
  const bool too_long =
      header.body_bytes > kMaxBodyBytes ||
      header.payload_bytes > ring::kMaxTransferBytes ||
      (header.payload_bytes > 0 && !CarriesPayload(header.type));
  return too_long ? HeaderFault::kTooLong : HeaderFault::kNone;
}

bool CheckIntegrity(const FrameHeader& header, absl::string_view body) {
  return CheckOf(header, body) == header.check;
}

std::string Encode(const Hello& hello) {
  return BodyWriter()
      .Put(hello.token)
      .Put(hello.instance)
      .Put(hello.connection)
      .Put(hello.epoch)
      .Put(uint64_t{hello.checksum})
      .Take();
}

absl::StatusOr<Hello> DecodeHello(absl::string_view body) {
  BodyReader reader(body);
  Hello hello;
  hello.token = reader.Get<Token>();
  hello.instance = reader.Get<Token>();
  hello.connection = reader.Get<uint64_t>();
  hello.epoch = reader.Get<int64_t>();
  hello.checksum = reader.Get<uint64_t>() != 0;
  SC_RETURN_IF_ERROR(reader.Finish("a greeting"));
  return hello;
}

std::string EncodeWelcome(bool checksum) {
  return EncodeNumber(uint64_t{checksum});
}
absl::StatusOr<bool> DecodeWelcome(absl::string_view body) {
  SC_ASSIGN_OR_RETURN(const uint64_t checksum, DecodeNumber(body));
  return checksum != 0;
}

std::string EncodeStatus(const absl::Status& status) {
  return BodyWriter()
      .Put(static_cast<uint32_t>(status.raw_code()))
      .Put(status.message().substr(0, kMaxMessageBytes))
      .Take();
}

absl::Status DecodeStatus(absl::string_view body, absl::Status* refusal) {
  BodyReader reader(body);
  const auto code = reader.Get<uint32_t>();
  const absl::string_view message =
      reader.Bytes(std::max(body.size(), sizeof(code)) - sizeof(code));
  SC_RETURN_IF_ERROR(reader.Finish("a refusal"));
  if (code == 0 || code > kMaxCode || message.size() > kMaxMessageBytes) {
    return Impossible("a refusal");
  }
  *refusal = absl::Status(static_cast<absl::StatusCode>(code), message);
  return absl::OkStatus();
}

std::string Encode(const OpenEdge& open) {
  return BodyWriter()
      .Put(open.seen)
      .Put(uint32_t{open.resume})
      .Put(static_cast<uint32_t>(open.name.size()))
      .Put(absl::string_view(open.name))
      .Take();
}

absl::StatusOr<OpenEdge> DecodeOpenEdge(absl::string_view body) {
  BodyReader reader(body);
  OpenEdge open;
  open.seen = reader.Get<uint64_t>();
  open.resume = reader.Get<uint32_t>() != 0;
  const auto name_bytes = reader.Get<uint32_t>();
  open.name = std::string(reader.Bytes(name_bytes));
  SC_RETURN_IF_ERROR(reader.Finish("the opening of an edge"));
  if (open.name.empty() || open.name.size() > kMaxEdgeNameBytes) {
    return Impossible("the opening of an edge");
  }
  return open;
}

std::string Encode(const EdgeOpened& opened) {
  return BodyWriter()
      .Put(opened.slot_bytes)
      .Put(opened.received)
      .Put(opened.granted)
      .Take();
}

absl::StatusOr<EdgeOpened> DecodeEdgeOpened(absl::string_view body) {
  BodyReader reader(body);
  EdgeOpened opened;
  opened.slot_bytes = reader.Get<uint64_t>();
  opened.received = reader.Get<uint64_t>();
  opened.granted = reader.Get<uint64_t>();
  SC_RETURN_IF_ERROR(reader.Finish("an opened edge"));
  if (opened.slot_bytes > ring::kMaxTransferBytes ||
      opened.granted > kMaxCount || opened.received > opened.granted) {
    return Impossible("an opened edge");
  }
  return opened;
}

std::string Encode(const Announce& announce) {
  const uint32_t count = announce.notice.tensor_count;
  BodyWriter writer;
  writer.Put(announce.sequence)
      .Put(announce.payload_bytes)
      .Put(announce.notice.header)
      .Put(count)
      .Put(uint32_t{0});
  for (uint32_t i = 0; i < count; ++i) writer.Put(announce.notice.tensors[i]);
  return writer.Take();
}

absl::StatusOr<Announce> DecodeAnnounce(absl::string_view body) {
  BodyReader reader(body);
  Announce announce;
  announce.sequence = reader.Get<uint64_t>();
  announce.payload_bytes = reader.Get<uint64_t>();
  announce.notice.header = reader.Get<ring::WireHeader>();
  announce.notice.tensor_count = reader.Get<uint32_t>();
  (void)reader.Get<uint32_t>();
  if (announce.notice.tensor_count > ring::kMaxTensors) {
    return Impossible("an announcement");
  }
  for (uint32_t i = 0; i < announce.notice.tensor_count; ++i) {
    announce.notice.tensors[i] = reader.Get<ring::WireTensor>();
  }
  SC_RETURN_IF_ERROR(reader.Finish("an announcement"));
  return announce;
}

std::string Encode(const EdgeStatus& status) {
  BodyWriter writer;
  writer.Put(status.received)
      .Put(status.granted)
      .Put(status.first_ack)
      .Put(static_cast<uint64_t>(status.acks.size()));
  for (const ring::WireHeader& ack : status.acks) writer.Put(ack);
  return writer.Take();
}

absl::StatusOr<EdgeStatus> DecodeEdgeStatus(absl::string_view body) {
  BodyReader reader(body);
  EdgeStatus status;
  status.received = reader.Get<uint64_t>();
  status.granted = reader.Get<uint64_t>();
  status.first_ack = reader.Get<uint64_t>();
  const auto count = reader.Get<uint64_t>();
  if (status.granted > kMaxCount || status.received > status.granted ||
      status.first_ack > kMaxCount || count > kMaxAcksPerFrame) {
    return Impossible("a status");
  }
  for (uint64_t i = 0; i < count; ++i) {
    status.acks.push_back(reader.Get<ring::WireHeader>());
  }
  SC_RETURN_IF_ERROR(reader.Finish("a status"));
  return status;
}

std::string EncodeNumber(uint64_t number) {
  return BodyWriter().Put(number).Take();
}

absl::StatusOr<uint64_t> DecodeNumber(absl::string_view body) {
  BodyReader reader(body);
  const auto number = reader.Get<uint64_t>();
  SC_RETURN_IF_ERROR(reader.Finish("a number"));
  return number;
}

}  // namespace stagecoach::transport::tcp
