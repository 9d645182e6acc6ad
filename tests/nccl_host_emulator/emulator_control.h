#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_EMULATOR_CONTROL_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_EMULATOR_CONTROL_H_

#include <cstddef>

// How tests steer the emulator: names that neither NCCL nor CUDA has, found
// with dlsym. A process that cannot call them sets NCCL_HOST_EMULATOR in its
// environment to the same text.
extern "C" {

// Faults and settings from now on, instead of those before; calls that hang go
// on. Entries are separated by ';':
//
//   CALL=fail:CODE     returns the ncclResult_t or cudaError_t of that number
//   CALL=async:CODE    ncclSend, ncclRecv: the transfer never ends and the
//                      communicator gets the asynchronous error
//   CALL=hang          does not return (ncclSend, ncclRecv: never ends;
//                      ncclCommInitRankConfig: is never ready)
//   CALL=delay:MS      ncclSend, ncclRecv, ncclCommInitRankConfig: so much
//   later CALL@N=...         only the N-th call from now on, from 1 jitter=SEED
//   transfers start at random times, up to 2 ms late version=22809      what
//   ncclGetVersion says gpus=N             how many GPUs there are; 8
//   device_memory=1    what cudaMalloc gives is not for the host
//   one_gpu=1          every device of every process is the same GPU
//
// Returns 0, or 1 for a text that it does not understand (nothing changes).
int nccl_host_emulator_set(const char* text);

// What was done with the interface that NCCL forbids or answers with a hang or
// garbage, one per line, since the last call. Returns how many; writes at most
// `size` bytes, with the terminating zero.
int nccl_host_emulator_take_misuses(char* text, size_t size);

// Calls of this name since the library was loaded or set.
int nccl_host_emulator_calls(const char* name);
// Waits until there are so many, and returns 1, or for so long, and returns 0.
int nccl_host_emulator_await_calls(const char* name, int count,
                                   int milliseconds);
}

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_EMULATOR_CONTROL_H_
