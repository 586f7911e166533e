/* Loaded before libc (LD_PRELOAD). Every fsync and fdatasync takes the milliseconds in the file CHAOS_SLOW_DISK longer,
   and the clock on the wall is wrong by the seconds (8 bytes, native) in the file CHAOS_CLOCK. Durations stay right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *wrong_by;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *wrong_by, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (seen != MAP_FAILED) wrong_by = seen;
}

static int64_t seconds_off(void) { return wrong_by == NULL ? 0 : *wrong_by; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += seconds_off();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec fine;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &fine);
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec fine;
    clock_gettime(CLOCK_REALTIME, &fine);
    if (now != NULL) *now = fine.tv_sec;
    return fine.tv_sec;
}

static void take_longer(void) {
    const char *path = getenv("CHAOS_SLOW_DISK");
    FILE *file = path ? fopen(path, "r") : NULL;
    unsigned milliseconds = 0;
    if (file == NULL) return;
    if (fscanf(file, "%u", &milliseconds) == 1 && milliseconds < 10000) usleep(milliseconds * 1000);
    fclose(file);
}

int fsync(int descriptor) {
    static int (*real)(int);
    if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    take_longer();
    return real(descriptor);
}

int fdatasync(int descriptor) {
    static int (*real)(int);
    if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    take_longer();
    return real(descriptor);
}
