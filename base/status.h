#ifndef STAGECOACH_BASE_STATUS_H_
#define STAGECOACH_BASE_STATUS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// The same status with `context` and ": " put before its message.
inline absl::Status Annotate(const absl::Status& status,
                             absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(context, ": ", status.message()));
}

}  // namespace stagecoach

#define SC_STATUS_CONCAT_INNER(a, b) a##b
#define SC_STATUS_CONCAT(a, b) SC_STATUS_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define SC_RETURN_IF_ERROR(expr)                            \
  do {                                                      \
    if (absl::Status sc_status = (expr); !sc_status.ok()) { \
      return sc_status;                                     \
    }                                                       \
  } while (false)

// `lhs` = the value of the StatusOr `expr`, or returns its status.
#define SC_ASSIGN_OR_RETURN(lhs, expr) \
  SC_ASSIGN_OR_RETURN_INNER(SC_STATUS_CONCAT(sc_or_, __LINE__), lhs, expr)
#define SC_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                              \
  if (!result.ok()) return result.status();          \
  lhs = std::move(result).value()

#endif  // STAGECOACH_BASE_STATUS_H_
