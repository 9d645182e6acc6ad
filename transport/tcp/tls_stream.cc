#include "transport/tcp/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/tcp/socket.h"

namespace stagecoach::transport::tcp {
namespace {

// The most that one record of TLS holds.
constexpr size_t kRecordBytes = size_t{16} << 10;
// Records are handed to the socket, and taken from it, by about so many bytes:
// a call for each would cost as much as its encryption, and many at once would
// keep the other side waiting.
constexpr size_t kWriteBufferBytes = size_t{32} << 10;
constexpr size_t kReadBufferBytes = size_t{64} << 10;

// ---- the stream -------------------------------------------------------------

// OpenSSL reads from the socket, and writes into a buffer that this empties
// into the socket: what it has encrypted has to be sent as it is, while whoever
// writes may by then have something else to say.
class TlsStream final : public ByteStream {
 public:
  TlsStream(std::shared_ptr<const TlsIdentity> identity,
            std::unique_ptr<ByteStream> plain, int64_t records_per_key)
      : identity_(std::move(identity)),
        plain_(std::move(plain)),
        records_per_key_(records_per_key),
        ssl_(SSL_new(identity_->context())) {}
  ~TlsStream() override { SSL_free(ssl_); }

  absl::Status Begin(bool dialled) {
    BIO* const bio = ssl_ == nullptr ? nullptr : BIO_new(Method());
    if (bio == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("tcp: TLS: ", TakeOpensslError()));
    }
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_, bio, bio);
    SSL_set_read_ahead(ssl_, 1);
    SSL_set_default_read_buffer_len(ssl_, kReadBufferBytes);
    if (!dialled) {
      SSL_set_accept_state(ssl_);
    } else {
      SSL_set_connect_state(ssl_);
      const std::string& name = identity_->name();
      if (!name.empty()) SSL_set1_host(ssl_, name.c_str());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Read(const iovec* parts, int count) override {
    size_t total = 0;
    for (int i = 0; i < count; ++i) {
      size_t done = 0;
      while (done < parts[i].iov_len) {
        MutexLock lock(&mu_);
        const size_t got =
            ReadLocked(static_cast<char*>(parts[i].iov_base) + done,
                       parts[i].iov_len - done);
        if (got == 0) {
          // What came before counts; the next call tells.
          if (total > 0 || broken_.ok()) return total;
          return broken_;
        }
        done += got;
        total += got;
      }
    }
    return total;
  }

  absl::StatusOr<size_t> Write(const iovec* parts, int count) override {
    size_t total = 0;
    for (int i = 0; i < count; ++i) {
      for (size_t done = 0; done < parts[i].iov_len;) {
        MutexLock lock(&mu_);
        if (unsent_.size() >= kWriteBufferBytes) SendLocked();
        SC_RETURN_IF_ERROR(unsendable_);
        if (unsent_.size() >= kWriteBufferBytes) return total;
        const size_t taken =
            EncryptLocked(static_cast<const char*>(parts[i].iov_base) + done,
                          std::min(kRecordBytes, parts[i].iov_len - done));
        if (!broken_.ok()) return broken_;
        if (taken == 0) return SendRest(total);
        done += taken;
        total += taken;
      }
    }
    MutexLock lock(&mu_);
    return SendRest(total);
  }

  bool drained() const override { return drained_; }

  void EndWriting() override {
    {
      MutexLock lock(&mu_);
      if (broken_.ok() && SSL_is_init_finished(ssl_) == 1) {
        SSL_shutdown(ssl_);
        SendLocked();
      }
      ERR_clear_error();
    }
    plain_->EndWriting();
  }
  int fd() const override { return plain_->fd(); }

 private:
  // ---- what OpenSSL calls, with the lock held ----
  static TlsStream* Of(BIO* bio) {
    return static_cast<TlsStream*>(BIO_get_data(bio));
  }
  static int OnWrite(BIO* bio, const char* data, size_t bytes, size_t* written)
      SC_TSA(no_thread_safety_analysis) {
    TlsStream* const self = Of(bio);
    self->unsent_.append(data, bytes);
    self->drained_ = false;
    *written = bytes;
    return 1;
  }
  static int OnRead(BIO* bio, char* data, size_t bytes, size_t* got) {
    BIO_clear_retry_flags(bio);
    errno = 0;  // stays so at the end of the stream
    const ssize_t read = recv(Of(bio)->fd(), data, bytes, MSG_DONTWAIT);
    *got = read > 0 ? static_cast<size_t>(read) : 0;
    if (read < 0 && (errno == EAGAIN || errno == EINTR)) {
      BIO_set_retry_read(bio);
    }
    return read > 0 ? 1 : 0;
  }
  static long OnControl(BIO* /*bio*/, int command, long /*number*/,
                        void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* const made =
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
      BIO_meth_set_write_ex(made, OnWrite);
      BIO_meth_set_read_ex(made, OnRead);
      BIO_meth_set_ctrl(made, OnControl);
      return made;
    }();
    return method;
  }

  // 0: no more can be now, or it is broken.
  size_t ReadLocked(char* to, size_t bytes) SC_REQUIRES(mu_) {
    if (!broken_.ok()) return 0;
    size_t got = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, to, bytes, &got);
    if (result != 1) NoteFailureLocked(result);
    SendLocked();  // a handshake's answer, say
    return got;
  }

  size_t EncryptLocked(const char* from, size_t bytes) SC_REQUIRES(mu_) {
    if (!broken_.ok()) return 0;
    size_t taken = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_, from, bytes, &taken);
    if (result != 1) NoteFailureLocked(result);
    if (taken > 0 && ++records_ % records_per_key_ == 0) {
      // Told with the next record; the peer's key is its own affair.
      SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    return taken;
  }

  absl::StatusOr<size_t> SendRest(size_t total) SC_REQUIRES(mu_) {
    SendLocked();
    SC_RETURN_IF_ERROR(unsendable_);
    return total;
  }
  void SendLocked() SC_REQUIRES(mu_) {
    if (unsent_.empty()) return;
    const iovec part{unsent_.data(), unsent_.size()};
    const absl::StatusOr<size_t> sent = plain_->Write(&part, 1);
    if (!sent.ok()) {
      unsendable_ = sent.status();
      return;
    }
    unsent_.erase(0, *sent);
    drained_ = unsent_.empty();
  }

  // Unless the call only has to wait for the socket.
  void NoteFailureLocked(int result) SC_REQUIRES(mu_) {
    const int saved = errno;
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ) return;
    if (error == SSL_ERROR_ZERO_RETURN) {
      broken_ = absl::UnavailableError("tcp: the peer closed");
    } else if (error == SSL_ERROR_SYSCALL) {
      broken_ = absl::UnavailableError(
          saved == 0 ? std::string("tcp: the peer closed")
                     : absl::StrCat("tcp: TLS: ", strerror(saved)));
    } else {
      const long verified = SSL_get_verify_result(ssl_);
      broken_ = absl::UnauthenticatedError(absl::StrCat(
          "tcp: TLS: ", TakeOpensslError(),
          verified == X509_V_OK
              ? ""
              : absl::StrCat(" (", X509_verify_cert_error_string(verified),
                             ")")));
    }
    ERR_clear_error();
    SendLocked();  // tells the peer why
  }

  const std::shared_ptr<const TlsIdentity> identity_;
  const std::unique_ptr<ByteStream> plain_;
  const int64_t records_per_key_;
  // OpenSSL's state serves one thread at a time.
  Mutex mu_;
  SSL* const ssl_;
  absl::Status broken_ SC_GUARDED_BY(mu_);
  // What has arrived can still be read.
  absl::Status unsendable_ SC_GUARDED_BY(mu_);
  int64_t records_ SC_GUARDED_BY(mu_) = 0;  // encrypted
  std::string unsent_ SC_GUARDED_BY(mu_);   // encrypted
  std::atomic<bool> drained_{true};         // nothing is unsent
};

}  // namespace

StreamFactory NewTlsStreams(std::shared_ptr<const TlsIdentity> identity,
                            int64_t records_per_key) {
  return [identity = std::move(identity), records_per_key](
             UniqueFd socket,
             bool dialled) -> absl::StatusOr<std::unique_ptr<ByteStream>> {
    SC_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> plain,
                        NewPlainStream(std::move(socket), dialled));
    auto stream = std::make_unique<TlsStream>(identity, std::move(plain),
                                              records_per_key);
    SC_RETURN_IF_ERROR(stream->Begin(dialled));
    return std::unique_ptr<ByteStream>(std::move(stream));
  };
}

}  // namespace stagecoach::transport::tcp
