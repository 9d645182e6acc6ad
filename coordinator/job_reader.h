#ifndef STAGECOACH_COORDINATOR_JOB_READER_H_
#define STAGECOACH_COORDINATOR_JOB_READER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "coordinator/cluster_state.h"
#include "coordinator/job_logs.h"
#include "coordinator/publish.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::coordinator {

// What a reader may read.
struct JobReading {
  const JobRecord& job;
  const JobLogs& logs;
  bool over;  // nothing will follow
};

// One client that reads a job's events or logs at its own pace: it has one
// message under way at most, so that a slow one holds nothing up and needs no
// queue. Used on the controller's executor; never blocks, never calls the
// controller back from these methods.
class JobReader {
 public:
  virtual ~JobReader() = default;
  // Sends the next message if there is one and none is under way. False once
  // the reader has ended.
  virtual bool Offer(const JobReading& reading) = 0;
  // The message that was under way has been sent.
  virtual void OnSent() = 0;
  // Nothing comes after this.
  virtual void End(const absl::Status& status) = 0;
};

// Which of a job's events a reader has had. Pure.
class EventCursor {
 public:
  using Request = v1::StreamEventsRequest;
  using Response = v1::StreamEventsResponse;

  explicit EventCursor(const Request& request)
      : revision_(request.after_revision()) {}
  // Fills in the next message; false if there is nothing new.
  bool Next(const JobReading& reading, Response* response);
  absl::Status Check(const JobReading&) const { return absl::OkStatus(); }

 private:
  int64_t revision_;
};

// Which bytes of the workers' logs a reader has had. Pure.
class LogCursor {
 public:
  using Request = v1::StreamLogsRequest;
  using Response = v1::StreamLogsResponse;

  explicit LogCursor(const Request& request);
  // As above; workers take turns.
  bool Next(const JobReading& reading, Response* response);
  // kNotFound if the one worker asked for had no part in the job.
  absl::Status Check(const JobReading& reading) const;

 private:
  bool NextOf(const std::string& worker, const BoundedLog& log,
              Response* response);

  const std::string only_;
  std::map<std::string, int64_t> offsets_;
  std::string last_;  // whose turn it was
};

// A reader that follows a cursor; how messages leave is left open.
template <typename Cursor>
class CursorReader : public JobReader {
 public:
  using Response = typename Cursor::Response;

  explicit CursorReader(const typename Cursor::Request& request)
      : cursor_(request), follow_(request.follow()) {}

  bool Offer(const JobReading& reading) final {
    if (under_way_) return true;
    Response response;
    if (cursor_.Next(reading, &response)) {
      under_way_ = true;
      Send(std::move(response));
      return true;
    }
    if (follow_ && !reading.over) return true;
    const absl::Status status = cursor_.Check(reading);
    if (status.ok()) {
      v1::StreamEnd* end = response.mutable_end();
      end->set_job_id(reading.job.id);
      end->set_state(PublishedState(reading.job));
      end->set_over(reading.over);
      Send(std::move(response));
    }
    End(status);
    return false;
  }
  void OnSent() final { under_way_ = false; }

 protected:
  virtual void Send(Response response) = 0;

 private:
  Cursor cursor_;
  const bool follow_;
  bool under_way_ = false;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_READER_H_
