#include "tests/nccl_host_emulator/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nccl_host_emulator {

Exchange::Exchange(int fd, const Group& group,
                   std::map<uint64_t, uint64_t>* posted, bool* peer_final)
    : fd_(fd),
      group_(group),
      posted_(posted),
      peer_final_(peer_final),
      left_(group.size()) {
  for (const Operation& operation : group) {
    if (operation.send) {
      sends_started_[operation.sequence] = false;
    } else {
      Queue(kPosted, operation.sequence, operation.bytes, nullptr);
    }
  }
}

void Exchange::Queue(uint32_t kind, uint64_t sequence, uint64_t bytes,
                     const char* body) {
  const Frame frame{kind, 0, sequence, bytes};
  Output output;
  output.head.resize(sizeof(frame));
  std::memcpy(output.head.data(), &frame, sizeof(frame));
  output.body = body;
  output.body_bytes = body == nullptr ? 0 : bytes;
  output_.push_back(std::move(output));
}

const Operation* Exchange::Find(bool send, uint64_t sequence) const {
  for (const Operation& operation : group_) {
    if (operation.send == send && operation.sequence == sequence) {
      return &operation;
    }
  }
  return nullptr;
}

bool Exchange::StartSends(std::string* why) {
  for (auto& [sequence, started] : sends_started_) {
    const auto posted = posted_->find(sequence);
    if (started || posted == posted_->end()) continue;
    const Operation& operation = *Find(/*send=*/true, sequence);
    if (posted->second != operation.bytes) {
      *why = "a send of " + std::to_string(operation.bytes) +
             " bytes meets a receive of " + std::to_string(posted->second);
      return false;
    }
    posted_->erase(posted);
    started = true;
    Queue(kData, sequence, operation.bytes, operation.data);
  }
  return true;
}

Exchange::Outcome Exchange::Run(std::string* why) {
  while (left_ > 0 || !output_.empty()) {
    if (!StartSends(why)) return Outcome::kMismatch;
    pollfd ready{fd_, POLLIN, 0};
    if (!output_.empty()) ready.events |= POLLOUT;
    if (poll(&ready, 1, -1) < 0 && errno != EINTR) return Outcome::kPeerGone;
    if ((ready.revents & POLLOUT) != 0 && !Write()) return Outcome::kPeerGone;
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !Read()) {
      return Outcome::kPeerGone;
    }
  }
  return Outcome::kDone;
}

bool Exchange::Write() {
  while (!output_.empty()) {
    Output& output = output_.front();
    const size_t head = output.head.size();
    const bool in_head = output.written < head;
    const char* const from = in_head ? output.head.data() + output.written
                                     : output.body + (output.written - head);
    const size_t bytes = in_head ? head - output.written
                                 : head + output.body_bytes - output.written;
    if (bytes == 0) {
      output_.pop_front();
      continue;
    }
    const ssize_t sent = send(fd_, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    output.written += static_cast<size_t>(sent);
  }
  return true;
}

bool Exchange::Read() {
  while (left_ > 0) {
    char* const to =
        body_left_ > 0 ? body_ : reinterpret_cast<char*>(&frame_) + frame_read_;
    const size_t bytes =
        body_left_ > 0 ? body_left_ : sizeof(frame_) - frame_read_;
    const ssize_t got = recv(fd_, to, bytes, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    if (body_left_ > 0) {
      body_ += got;
      body_left_ -= static_cast<size_t>(got);
      if (body_left_ == 0) OnData();
      continue;
    }
    frame_read_ += static_cast<size_t>(got);
    if (frame_read_ == sizeof(frame_)) {
      frame_read_ = 0;
      OnFrame();
    }
  }
  return true;
}

void Exchange::OnFrame() {
  switch (frame_.kind) {
    case kPosted:
      (*posted_)[frame_.sequence] = frame_.bytes;
      return;
    case kData: {
      // The sender has compared the sizes.
      const Operation* const operation = Find(false, frame_.sequence);
      body_ = operation->data;
      body_left_ = frame_.bytes;
      if (body_left_ == 0) OnData();
      return;
    }
    case kTaken:
      --left_;
      return;
    case kFinal:
      *peer_final_ = true;
      return;
    default:
      return;
  }
}

void Exchange::OnData() {
  Queue(kTaken, frame_.sequence, 0, nullptr);
  --left_;
}

bool SendFinal(int fd) {
  const Exchange::Frame frame{Exchange::kFinal, 0, 0, 0};
  return send(fd, &frame, sizeof(frame), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof(frame));
}

bool AwaitFinal(int fd) {
  Exchange::Frame frame{};
  while (recv(fd, &frame, sizeof(frame), MSG_WAITALL) ==
         static_cast<ssize_t>(sizeof(frame))) {
    if (frame.kind == Exchange::kFinal) return true;
  }
  return false;
}

}  // namespace nccl_host_emulator
