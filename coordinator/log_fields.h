#ifndef STAGECOACH_COORDINATOR_LOG_FIELDS_H_
#define STAGECOACH_COORDINATOR_LOG_FIELDS_H_

#include <string>

#include "base/log.h"

namespace stagecoach::coordinator {

// Of a log line about a job.
inline LogFields JobFields(const std::string& job_id) {
  LogFields fields;
  fields.job = job_id;
  return fields;
}

// Of one about a worker, and the job that it has a part in, if any.
inline LogFields WorkerFields(const std::string& worker,
                              const std::string& job_id) {
  LogFields fields;
  fields.worker = worker;
  fields.job = job_id;
  return fields;
}

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_LOG_FIELDS_H_
