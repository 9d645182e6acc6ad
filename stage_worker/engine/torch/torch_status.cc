#include "stage_worker/engine/torch/torch_status.h"

#include <c10/util/Exception.h>

#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace stagecoach::worker {
namespace {

// The first line: below it torch lists stack frames and general advice.
absl::string_view FirstLine(absl::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

absl::Status StatusOfCurrentException(absl::string_view place) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat(place, ": ", FirstLine(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat(place, ": ", FirstLine(error.what_without_backtrace())));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(place, ": out of memory"));
  } catch (const std::invalid_argument& error) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", error.what()));
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat(place, ": ", FirstLine(error.what())));
  } catch (...) {
    return absl::InternalError(absl::StrCat(place, ": unknown exception"));
  }
}

}  // namespace stagecoach::worker
