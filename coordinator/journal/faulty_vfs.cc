#include "coordinator/journal/faulty_vfs.h"

#include <sqlite3.h>

namespace stagecoach::coordinator {
namespace {

// SQLite allocates it with the real file behind it.
struct File {
  sqlite3_file base;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<File*>(file)->real();
}

int Close(sqlite3_file* file) {
  return Real(file)->pMethods->xClose(Real(file));
}
int Read(sqlite3_file* file, void* data, int bytes, sqlite3_int64 offset) {
  return Real(file)->pMethods->xRead(Real(file), data, bytes, offset);
}
int Write(sqlite3_file* file, const void* data, int bytes,
          sqlite3_int64 offset) {
  if (const int code = FaultyVfs::Get().OnChange(); code != SQLITE_OK) {
    return code;
  }
  return Real(file)->pMethods->xWrite(Real(file), data, bytes, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = FaultyVfs::Get().OnChange(); code != SQLITE_OK) {
    return code;
  }
  return Real(file)->pMethods->xTruncate(Real(file), size);
}
int Sync(sqlite3_file* file, int flags) {
  if (const int code = FaultyVfs::Get().OnChange(); code != SQLITE_OK) {
    return code;
  }
  return Real(file)->pMethods->xSync(Real(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Real(file)->pMethods->xFileSize(Real(file), size);
}
int Lock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xLock(Real(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* reserved) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), reserved);
}
int FileControl(sqlite3_file* file, int op, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), op, argument);
}
int SectorSize(sqlite3_file* file) {
  return Real(file)->pMethods->xSectorSize(Real(file));
}
int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}

// Version 1: no shared memory, which a journal does not use.
constexpr sqlite3_io_methods kMethods = {1,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReservedLock,
                                         FileControl,
                                         SectorSize,
                                         DeviceCharacteristics,
                                         nullptr,
                                         nullptr,
                                         nullptr,
                                         nullptr,
                                         nullptr,
                                         nullptr};

sqlite3_vfs* RealVfs(sqlite3_vfs* vfs) {
  return static_cast<sqlite3_vfs*>(vfs->pAppData);
}

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
         int* out_flags) {
  const int code =
      RealVfs(vfs)->xOpen(RealVfs(vfs), name, Real(file), flags, out_flags);
  file->pMethods = Real(file)->pMethods == nullptr ? nullptr : &kMethods;
  return code;
}

}  // namespace

FaultyVfs& FaultyVfs::Get() {
  static FaultyVfs vfs;
  return vfs;
}

FaultyVfs::FaultyVfs() {
  sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs vfs = *real;
  vfs.zName = "faulty";
  vfs.pNext = nullptr;
  vfs.pAppData = real;
  vfs.szOsFile = static_cast<int>(sizeof(File)) + real->szOsFile;
  vfs.xOpen = Open;
  sqlite3_vfs_register(&vfs, 0);
}

void FaultyVfs::FailAt(int n, int code, bool for_ever) {
  countdown_ = n;
  code_ = code;
  for_ever_ = for_ever;
  has_failed_ = false;
}

int FaultyVfs::OnChange() {
  if (countdown_ == 0) return SQLITE_OK;
  if (countdown_ > 1) {
    --countdown_;
    return SQLITE_OK;
  }
  if (!for_ever_) countdown_ = 0;
  has_failed_ = true;
  return code_;
}

}  // namespace stagecoach::coordinator
