#ifndef STAGECOACH_COORDINATOR_EVENT_CODEC_H_
#define STAGECOACH_COORDINATOR_EVENT_CODEC_H_

#include "absl/status/statusor.h"
#include "coordinator/event.h"
#include "coordinator/failure.h"
#include "stagecoach/v1/journal.pb.h"

namespace stagecoach::coordinator {

// Grows when a reader of the old format would misunderstand the new one; a
// field or a kind that an old reader may not know counts as that.
inline constexpr int kJournalSchemaVersion = 1;

// The one conversion between events and what the journal holds. An event comes
// back as it was.
void ToProto(const Event& event, v1::JournalEvent* proto);
// kDataLoss for an event of no known kind.
absl::StatusOr<Event> FromProto(const v1::JournalEvent& proto);

// Parts that snapshots have too.
void ToProto(const StagePlan& stage, v1::StagePlanRecord* proto);
StagePlan FromProto(const v1::StagePlanRecord& proto);
void ToProto(const StepRecord& step, v1::StepRecord* proto);
StepRecord FromProto(const v1::StepRecord& proto);
void ToProto(const MicrobatchLossSum& loss, v1::LossSumRecord* proto);
MicrobatchLossSum FromProto(const v1::LossSumRecord& proto);
void ToProto(const FailureCause& cause, v1::CauseRecord* proto);
FailureCause FromProto(const v1::CauseRecord& proto);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_EVENT_CODEC_H_
