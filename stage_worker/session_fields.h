#ifndef STAGECOACH_STAGE_WORKER_SESSION_FIELDS_H_
#define STAGECOACH_STAGE_WORKER_SESSION_FIELDS_H_

#include <string>

#include "base/ids.h"
#include "base/log.h"

namespace stagecoach::worker {

// Of a line about a job.
inline LogFields FieldsOf(const std::string& job_id, Epoch epoch) {
  LogFields fields;
  fields.job = job_id;
  fields.epoch = epoch.value();
  return fields;
}

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_SESSION_FIELDS_H_
