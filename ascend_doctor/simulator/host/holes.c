/* Preloaded into ranks at true size: zeros that are written become a hole of the file. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 16 * PAGE };
static uint64_t left_out;

uint64_t sim_left_out(void) {
    return __atomic_load_n(&left_out, __ATOMIC_RELAXED);
}

/* Only where the file has no older bytes: beyond its end, or in a hole of it. */
static bool leave_out(int file, const char *bytes, size_t size) {
    struct stat status;
    if (*bytes || memcmp(bytes, bytes + 1, size - 1) || fstat(file, &status) || !S_ISREG(status.st_mode))
        return false;
    off_t place = lseek(file, 0, SEEK_CUR), end = place + (off_t)size;
    if (place < 0)
        return false;
    if (place < status.st_size) {
        off_t older = lseek(file, place, SEEK_DATA);
        lseek(file, place, SEEK_SET);
        if (older >= 0 && older < end)
            return false;
    }
    if (end > status.st_size && ftruncate(file, end))
        return false;
    lseek(file, end, SEEK_SET);
    __atomic_fetch_add(&left_out, size, __ATOMIC_RELAXED);
    return true;
}

ssize_t write(int file, const void *from, size_t size) {
    const char *bytes = from;
    off_t place = size < 2 * PIECE ? -1 : lseek(file, 0, SEEK_CUR);
    if (place < 0)
        return syscall(SYS_write, file, from, size);
    size_t done = 0, piece = PIECE - (size_t)place % PAGE; /* then pages of the file are whole */
    for (; done < size; piece = size - done > PIECE ? PIECE : size - done) {
        if (piece < PIECE || !leave_out(file, bytes + done, piece)) {
            ssize_t written = syscall(SYS_write, file, bytes + done, piece);
            if (written < 0)
                return done ? (ssize_t)done : written;
            done += (size_t)written;
            if ((size_t)written < piece)
                break;
        } else {
            done += piece;
        }
    }
    return (ssize_t)done;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    ssize_t done = 0;
    size_t size = 0;
    for (int at = 0; at < count; at++)
        size += parts[at].iov_len;
    if (size < 2 * PIECE)
        return syscall(SYS_writev, file, parts, count);
    for (int at = 0; at < count; at++) {
        ssize_t written = write(file, parts[at].iov_base, parts[at].iov_len);
        if (written < 0)
            return done ? done : written;
        done += written;
        if ((size_t)written < parts[at].iov_len)
            break;
    }
    return done;
}
