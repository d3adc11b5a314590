/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_FAULT_CALLS_H
#define TESTS_FAULTS_FAULT_CALLS_H
/*
 * The calls of the objects under test that can be made to fail. Outcomes: `fail` takes the result
 * and errno of this list; `eN` sets errno N; `short` moves half of the bytes, only for FAULT_MOVES,
 * send and recv.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* C(type, name, parameters, arguments, result if it fails, errno then) */
#define FAULT_CALLS(C) \
	C(int, access, (const char *path, int mode), (path, mode), -1, EACCES) \
	C(int, accept4, (int fd, struct sockaddr *to, socklen_t *size, int flags), \
	  (fd, to, size, flags), -1, EMFILE) \
	C(int, bind, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), -1, \
	  EACCES) \
	C(int, chdir, (const char *path), (path), -1, EACCES) \
	C(int, chmod, (const char *path, mode_t mode), (path, mode), -1, EPERM) \
	C(int, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size), -1, \
	  ENOMEM) \
	C(int, dup2, (int from, int to), (from, to), -1, EBUSY) \
	C(int, epoll_create1, (int flags), (flags), -1, EMFILE) \
	C(int, epoll_ctl, (int fd, int operation, int of, struct epoll_event *event), \
	  (fd, operation, of, event), -1, ENOSPC) \
	C(int, epoll_wait, (int fd, struct epoll_event *events, int count, int timeout), \
	  (fd, events, count, timeout), -1, EINTR) \
	C(int, eventfd_read, (int fd, eventfd_t *value), (fd, value), -1, EAGAIN) \
	C(int, eventfd_write, (int fd, eventfd_t value), (fd, value), -1, EAGAIN) \
	C(int, eventfd, (unsigned int value, int flags), (value, flags), -1, EMFILE) \
	C(int, execvp, (const char *file, char *const arguments[]), (file, arguments), -1, ENOENT) \
	C(int, fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size), \
	  -1, ENOSPC) \
	C(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, EPERM) \
	C(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), -1, EPERM) \
	C(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL, ENOMEM) \
	C(char *, fgets, (char *text, int size, FILE *stream), (text, size, stream), NULL, EIO) \
	C(int, fflush, (FILE * stream), (stream), EOF, ENOSPC) \
	C(int, flock, (int fd, int operation), (fd, operation), -1, ENOLCK) \
	C(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE) \
	C(pid_t, fork, (void), (), -1, EAGAIN) \
	C(int, fstat, (int fd, struct stat *is), (fd, is), -1, EOVERFLOW) \
	C(int, fstatat, (int at, const char *path, struct stat *is, int flags), \
	  (at, path, is, flags), -1, EACCES) \
	C(int, fstatfs, (int fd, struct statfs *is), (fd, is), -1, ENOSYS) \
	C(int, ftruncate, (int fd, off_t size), (fd, size), -1, ENOSPC) \
	C(char *, getcwd, (char *path, size_t size), (path, size), NULL, ENOENT) \
	C(struct group *, getgrgid, (gid_t id), (id), NULL, EIO) \
	C(int, getgrnam_r, \
	  (const char *name, struct group *group, char *room, size_t size, struct group **out), \
	  (name, group, room, size, out), EIO, 0) \
	C(struct passwd *, getpwuid, (uid_t id), (id), NULL, EIO) \
	C(ssize_t, getrandom, (void *to, size_t size, unsigned int flags), (to, size, flags), -1, \
	  ENOSYS) \
	C(int, getrlimit, (__rlimit_resource_t what, struct rlimit * limit), (what, limit), -1, \
	  EINVAL) \
	C(int, getsockname, (int fd, struct sockaddr *to, socklen_t *size), (fd, to, size), -1, \
	  ENOBUFS) \
	C(int, getsockopt, (int fd, int level, int name, void *to, socklen_t *size), \
	  (fd, level, name, to, size), -1, ENOPROTOOPT) \
	C(ssize_t, getxattr, (const char *path, const char *name, void *to, size_t size), \
	  (path, name, to, size), -1, ENOTSUP) \
	C(int, lchown, (const char *path, uid_t user, gid_t group), (path, user, group), -1, \
	  EPERM) \
	C(int, linkat, (int from_at, const char *from, int to_at, const char *to, int flags), \
	  (from_at, from, to_at, to, flags), -1, EPERM) \
	C(int, listen, (int fd, int count), (fd, count), -1, EADDRINUSE) \
	C(struct tm *, localtime_r, (const time_t *time, struct tm *to), (time, to), NULL, \
	  EOVERFLOW) \
	C(off_t, lseek, (int fd, off_t to, int whence), (fd, to, whence), -1, ESPIPE) \
	C(int, lstat, (const char *path, struct stat *is), (path, is), -1, EACCES) \
	C(int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1, EINVAL) \
	C(int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1, EMFILE) \
	C(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, EACCES) \
	C(char *, mkdtemp, (char *path), (path), NULL, EACCES) \
	C(int, mkostemp, (char *path, int flags), (path, flags), -1, EACCES) \
	C(int, mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), -1, EACCES) \
	C(int, mprotect, (void *at, size_t size, int protection), (at, size, protection), -1, \
	  ENOMEM) \
	C(int, nanosleep, (const struct timespec *length, struct timespec *rest), (length, rest), \
	  -1, EINTR) \
	C(FILE *, open_memstream, (char **text, size_t *size), (text, size), NULL, ENOMEM) \
	C(int, pipe2, (int ends[2], int flags), (ends, flags), -1, EMFILE) \
	C(int, posix_fallocate, (int fd, off_t offset, off_t size), (fd, offset, size), ENOSPC, 0) \
	C(int, posix_spawn, \
	  (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions, \
	   const posix_spawnattr_t *attributes, char *const arguments[], \
	   char *const environment[]), \
	  (pid, path, actions, attributes, arguments, environment), EAGAIN, 0) \
	C(int, posix_spawn_file_actions_adddup2, \
	  (posix_spawn_file_actions_t * actions, int from, int to), (actions, from, to), ENOMEM, \
	  0) \
	C(int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * actions), (actions), \
	  ENOMEM, 0) \
	C(int, posix_spawnattr_init, (posix_spawnattr_t * attributes), (attributes), ENOMEM, 0) \
	C(int, posix_spawnattr_setflags, (posix_spawnattr_t * attributes, short flags), \
	  (attributes, flags), EINVAL, 0) \
	C(int, posix_spawnattr_setsigmask, \
	  (posix_spawnattr_t * attributes, const sigset_t *signals), (attributes, signals), \
	  EINVAL, 0) \
	C(int, ppoll, \
	  (struct pollfd * fds, nfds_t count, const struct timespec *timeout, \
	   const sigset_t *signals), \
	  (fds, count, timeout, signals), -1, ENOMEM) \
	C(int, pthread_attr_init, (pthread_attr_t * attributes), (attributes), ENOMEM, 0) \
	C(int, pthread_cond_init, \
	  (pthread_cond_t * condition, const pthread_condattr_t *attributes), \
	  (condition, attributes), ENOMEM, 0) \
	C(int, pthread_create, \
	  (pthread_t * thread, const pthread_attr_t *attributes, void *(*work)(void *), \
	   void *argument), \
	  (thread, attributes, work, argument), EAGAIN, 0) \
	C(int, pthread_mutex_clocklock, \
	  (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *until), \
	  (mutex, clock, until), ETIMEDOUT, 0) \
	C(int, pthread_mutex_init, \
	  (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes), (mutex, attributes), \
	  ENOMEM, 0) \
	C(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex), EBUSY, 0) \
	C(int, pthread_mutexattr_init, (pthread_mutexattr_t * attributes), (attributes), ENOMEM, \
	  0) \
	C(int, pthread_mutexattr_setpshared, (pthread_mutexattr_t * attributes, int shared), \
	  (attributes, shared), ENOTSUP, 0) \
	C(int, pthread_mutexattr_setrobust, (pthread_mutexattr_t * attributes, int robust), \
	  (attributes, robust), ENOTSUP, 0) \
	C(ssize_t, readlink, (const char *path, char *to, size_t size), (path, to, size), -1, \
	  EACCES) \
	C(char *, realpath, (const char *path, char *to), (path, to), NULL, EACCES) \
	C(int, rename, (const char *from, const char *to), (from, to), -1, EACCES) \
	C(int, renameat, (int from_at, const char *from, int to_at, const char *to), \
	  (from_at, from, to_at, to), -1, EACCES) \
	C(int, rmdir, (const char *path), (path), -1, EACCES) \
	C(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t * set), (pid, size, set), -1, \
	  EINVAL) \
	C(int, setenv, (const char *name, const char *value, int replace), (name, value, replace), \
	  -1, ENOMEM) \
	C(int, setrlimit, (__rlimit_resource_t what, const struct rlimit *limit), (what, limit), \
	  -1, EPERM) \
	C(int, setsockopt, (int fd, int level, int name, const void *from, socklen_t size), \
	  (fd, level, name, from, size), -1, EPERM) \
	C(pid_t, setsid, (void), (), -1, EPERM) \
	C(int, shutdown, (int fd, int ends), (fd, ends), -1, ENOTCONN) \
	C(int, signalfd, (int fd, const sigset_t *signals, int flags), (fd, signals, flags), -1, \
	  EMFILE) \
	C(int, sigtimedwait, \
	  (const sigset_t *signals, siginfo_t *which, const struct timespec *timeout), \
	  (signals, which, timeout), -1, EAGAIN) \
	C(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE) \
	C(int, stat, (const char *path, struct stat *is), (path, is), -1, EACCES) \
	C(int, statvfs, (const char *path, struct statvfs *is), (path, is), -1, EACCES) \
	C(long, sysconf, (int name), (name), -1, EINVAL) \
	C(int, timerfd_create, (clockid_t clock, int flags), (clock, flags), -1, EMFILE) \
	C(int, timerfd_settime, \
	  (int fd, int flags, const struct itimerspec *time, struct itimerspec *before), \
	  (fd, flags, time, before), -1, EINVAL) \
	C(int, unlink, (const char *path), (path), -1, EACCES) \
	C(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1, EACCES) \
	C(int, vasprintf, (char **out, const char *format, va_list words), (out, format, words), \
	  -1, ENOMEM) \
	C(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), -1, \
	  EIO)

/* The same for calls that move bytes; the byte count is called `size`. */
#define FAULT_MOVES(C) \
	C(size_t, fwrite, (const void *from, size_t one, size_t size, FILE *stream), \
	  (from, one, size, stream), 0, ENOSPC) \
	C(ssize_t, pread, (int fd, void *to, size_t size, off_t offset), (fd, to, size, offset), \
	  -1, EIO) \
	C(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t offset), \
	  (fd, from, size, offset), -1, ENOSPC) \
	C(ssize_t, sendto, \
	  (int fd, const void *from, size_t size, int flags, const struct sockaddr *to, \
	   socklen_t length), \
	  (fd, from, size, flags, to, length), -1, ECONNREFUSED) \
	C(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), -1, EIO) \
	C(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), -1, ENOSPC)

#endif
