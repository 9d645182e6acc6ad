#include "transport/two_sided/control_message.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/ring/wire_format.h"

namespace stagecoach::transport::two_sided {
namespace {

constexpr uint8_t kFormat = 1;

// Little-endian, whatever the host is.
class Writer {
 public:
  template <typename T>
  void Number(T value) {
    const auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<char>(bits >> (8 * i)));
    }
  }
  void Text(absl::string_view text) {
    text = text.substr(0, kMaxTextBytes);
    Number(static_cast<uint16_t>(text.size()));
    out_.append(text.data(), text.size());
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads zeroes past the end and remembers that it did.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    if (bytes_.size() < sizeof(T)) {
      short_ = true;
      bytes_ = {};
      return T{};
    }
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits |= uint64_t{static_cast<uint8_t>(bytes_[i])} << (8 * i);
    }
    bytes_.remove_prefix(sizeof(T));
    return static_cast<T>(bits);
  }
  std::string Text() {
    const size_t size = Number<uint16_t>();
    if (size > kMaxTextBytes || size > bytes_.size()) {
      short_ = true;
      bytes_ = {};
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  // Everything was there and nothing is left.
  bool Complete() const { return !short_ && bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool short_ = false;
};

void WriteHeader(const TransferHeader& header, Writer* writer) {
  writer->Number(header.epoch.value());
  writer->Number(header.step.value());
  writer->Number(header.replica);
  writer->Number(header.microbatch.value());
  writer->Number(header.stage.value());
  writer->Number(static_cast<uint8_t>(header.direction));
}

absl::StatusOr<TransferHeader> ReadHeader(Reader* reader) {
  TransferHeader header;
  header.epoch = Epoch(reader->Number<int64_t>());
  header.step = StepIndex(reader->Number<int64_t>());
  header.replica = reader->Number<int32_t>();
  header.microbatch = MicrobatchIndex(reader->Number<int32_t>());
  header.stage = StageIndex(reader->Number<int32_t>());
  const auto direction = reader->Number<uint8_t>();
  if (direction > static_cast<uint8_t>(Direction::kGradient)) {
    return absl::DataLossError(absl::StrCat("the direction ", direction));
  }
  header.direction = static_cast<Direction>(direction);
  return header;
}

void WriteTensor(const TensorDescriptor& tensor, Writer* writer) {
  writer->Number(static_cast<uint8_t>(tensor.dtype));
  writer->Number(static_cast<uint8_t>(tensor.shape.size()));
  for (const int64_t size : tensor.shape) writer->Number(size);
}

absl::StatusOr<TensorDescriptor> ReadTensor(Reader* reader) {
  TensorDescriptor tensor;
  tensor.dtype = static_cast<DType>(reader->Number<uint8_t>());
  const auto rank = reader->Number<uint8_t>();
  if (rank > ring::kMaxRank) {
    return absl::DataLossError(
        absl::StrCat("a tensor of ", rank, " dimensions"));
  }
  for (int i = 0; i < rank; ++i) {
    tensor.shape.push_back(reader->Number<int64_t>());
  }
  return tensor;
}

bool IsKnown(ControlKind kind) {
  return kind >= ControlKind::kOpen && kind <= ControlKind::kBye;
}

absl::Status ReadLists(Reader* reader, ControlMessage* message) {
  const auto headers = reader->Number<uint8_t>();
  const auto tensors = reader->Number<uint8_t>();
  const bool announces = message->kind == ControlKind::kAnnounce;
  const bool acknowledges = message->kind == ControlKind::kAcknowledge;
  if (headers > kMaxHeadersPerMessage ||
      (announces ? headers != 1 : acknowledges != (headers > 0)) ||
      tensors > (announces ? ring::kMaxTensors : 0)) {
    return absl::DataLossError(
        absl::StrCat(headers, " headers and ", tensors, " tensors"));
  }
  for (int i = 0; i < headers; ++i) {
    SC_ASSIGN_OR_RETURN(TransferHeader header, ReadHeader(reader));
    message->headers.push_back(header);
  }
  // Checks types and sizes too.
  ring::TensorPlacer placer;
  for (int i = 0; i < tensors; ++i) {
    SC_ASSIGN_OR_RETURN(TensorDescriptor tensor, ReadTensor(reader));
    SC_RETURN_IF_ERROR(placer.Add(tensor).status());
    message->tensors.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<ControlMessage> Read(Reader* reader) {
  const auto format = reader->Number<uint8_t>();
  if (format != kFormat) {
    return absl::DataLossError(absl::StrCat("the format ", format));
  }
  ControlMessage message;
  message.kind = static_cast<ControlKind>(reader->Number<uint8_t>());
  if (!IsKnown(message.kind)) {
    return absl::DataLossError(
        absl::StrCat("the kind ", static_cast<int>(message.kind)));
  }
  message.to_receiver = reader->Number<uint8_t>() != 0;
  message.edge = reader->Text();
  message.connection = reader->Number<uint64_t>();
  message.number = reader->Number<uint64_t>();
  message.text = reader->Text();
  SC_RETURN_IF_ERROR(ReadLists(reader, &message));
  if (!reader->Complete()) return absl::DataLossError("another length");
  return message;
}

}  // namespace

std::string EncodeControl(const ControlMessage& message) {
  Writer writer;
  writer.Number(kFormat);
  writer.Number(static_cast<uint8_t>(message.kind));
  writer.Number(static_cast<uint8_t>(message.to_receiver));
  writer.Text(message.edge);
  writer.Number(message.connection);
  writer.Number(message.number);
  writer.Text(message.text);
  writer.Number(static_cast<uint8_t>(message.headers.size()));
  writer.Number(static_cast<uint8_t>(message.tensors.size()));
  for (const TransferHeader& header : message.headers) {
    WriteHeader(header, &writer);
  }
  for (const TensorDescriptor& tensor : message.tensors) {
    WriteTensor(tensor, &writer);
  }
  return writer.Take();
}

absl::StatusOr<ControlMessage> DecodeControl(absl::string_view bytes) {
  Reader reader(bytes);
  absl::StatusOr<ControlMessage> message = Read(&reader);
  if (message.ok()) return message;
  return absl::DataLossError(absl::StrCat("a peer's control message has ",
                                          message.status().message(),
                                          ", which cannot be"));
}

}  // namespace stagecoach::transport::two_sided
