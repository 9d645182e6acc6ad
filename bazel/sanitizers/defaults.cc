// Built-in options and suppressions of the sanitizers.

#if defined(__SANITIZE_THREAD__)
#define SC_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define SC_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SC_TSAN 1
#elif __has_feature(address_sanitizer)
#define SC_ASAN 1
#endif
#endif

#if SC_TSAN
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_options() {
  return "second_deadlock_stack=1";
}

// Debian's gRPC, protobuf and absl and the libtorch wheel are not instrumented:
// ThreadSanitizer sees their memory accesses through interceptors (memcpy,
// free) but not the atomics that order them. This ignores what they do
// themselves.
//
// Never write race:libgrpc here: it matches any frame of a stack, so it would
// hide every race in our own RPC handlers, which gRPC calls.
//
// A status counts its references in libabsl_status.so, which jumps to operator
// delete: the frame above that is Unref, inlined in our code. Unref calls
// nothing else, so this hides no more than the end of a status's shared part.
//
// The dynamic linker frees what an ended thread had as thread_local in a
// library opened later, on whichever thread next makes or ends one.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:ld-linux-x86-64.so.2\n"
         "called_from_lib:libabsl_base.so\n"
         "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_cord_internal.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_raw_hash_set.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_statusor.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libabsl_time.so\n"
         "called_from_lib:libaddress_sorting.so\n"
         "called_from_lib:libc10.so\n"
         "called_from_lib:libcares.so\n"
         "called_from_lib:libgomp.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgrpc.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:libre2.so\n"
         "called_from_lib:libtorch_cpu.so\n"
         "called_from_lib:libupb.so\n"
         "race:^absl::*Status::Unref\n";
}
#endif

// No leak suppressions: gRPC and libtorch need none, as measured.
#if SC_ASAN
extern "C" const char* __asan_default_options();

extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_init_order=1";
}
#endif
