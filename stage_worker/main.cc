#include <cstdio>
#include <exception>

#include "stage_worker/worker_main.h"

int main(int argc, char** argv) try {
  return stagecoach::worker::WorkerMain(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "stagecoach-worker: internal error: %s\n", error.what());
  return 1;
}
