#include "stage_worker/worker_main.h"

int main(int argc, char** argv) {
  return stagecoach::worker::WorkerMain(argc, argv);
}
