#ifndef STAGECOACH_COORDINATOR_JOURNAL_FAULTY_VFS_H_
#define STAGECOACH_COORDINATOR_JOURNAL_FAULTY_VFS_H_

#include <string>

namespace stagecoach::coordinator {

// SQLite's own file system, whose n-th write, truncation or synchronisation
// fails. Registered once for the process under the name "faulty"; one test uses
// it at a time.
class FaultyVfs {
 public:
  static FaultyVfs& Get();
  std::string name() const { return "faulty"; }

  // The n-th change of a file from now (from 1) fails with this code of
  // SQLite's, and so do the following ones if `for_ever`. 0: none fails.
  void FailAt(int n, int code, bool for_ever);
  // Whether one has failed since.
  bool has_failed() const { return has_failed_; }

  // Called for each change; the code to fail with, or SQLITE_OK.
  int OnChange();

 private:
  FaultyVfs();

  int countdown_ = 0;
  int code_ = 0;
  bool for_ever_ = false;
  bool has_failed_ = false;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_FAULTY_VFS_H_
