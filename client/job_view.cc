#include "client/job_view.h"

#include "client/exit_codes.h"

namespace stagecoach::client {
namespace {

// Keeps the old list where the event has none.
template <typename List>
void KeepIfEmpty(List* old_list, List* new_list) {
  if (new_list->empty()) new_list->Swap(old_list);
}

}  // namespace

void JobView::Apply(const v1::Job& event) {
  AddNewSteps(event);
  v1::Job newer = event;
  newer.mutable_steps()->Swap(job_.mutable_steps());
  KeepIfEmpty(job_.mutable_workers(), newer.mutable_workers());
  KeepIfEmpty(job_.mutable_stages(), newer.mutable_stages());
  KeepIfEmpty(job_.mutable_parameters(), newer.mutable_parameters());
  if (!newer.has_spec() && job_.has_spec()) {
    newer.mutable_spec()->Swap(job_.mutable_spec());
  }
  job_.Swap(&newer);
}

void JobView::AddNewSteps(const v1::Job& event) {
  for (const v1::StepResult& step : event.steps()) {
    if (step.step() > last_step()) *job_.add_steps() = step;
  }
}

bool JobView::finished() const { return IsFinished(job_.state()); }

int64_t JobView::last_step() const {
  return job_.steps().empty() ? -1 : job_.steps().rbegin()->step();
}

}  // namespace stagecoach::client
