/* Preloaded into the processes of a simulated node: its host name, and an address for every node.
 *
 * The node with number k is node-k at 127.0.0.(k + 1), all of them loopback addresses of this machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { MAX_NODES = 16 };

static const char *own_name(void) {
    const char *name = getenv("ASCEND_SIMULATOR_HOST");
    return name && *name ? name : NULL;
}

int gethostname(char *buffer, size_t size) {
    const char *name = own_name();
    if (!name) {
        int (*real)(char *, size_t) = (int (*)(char *, size_t))dlsym(RTLD_NEXT, "gethostname");
        return real(buffer, size);
    }
    if (strlen(name) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(buffer, name);
    return 0;
}

int uname(struct utsname *names) {
    int (*real)(struct utsname *) = (int (*)(struct utsname *))dlsym(RTLD_NEXT, "uname");
    int result = real(names);
    const char *name = own_name();
    if (!result && name)
        snprintf(names->nodename, sizeof names->nodename, "%s", name);
    return result;
}

int getaddrinfo(const char *restrict host, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(
            RTLD_NEXT, "getaddrinfo");
    unsigned node;
    char rest, address[16];
    if (host && own_name() && sscanf(host, "node-%2u%c", &node, &rest) == 1 && node < MAX_NODES) {
        snprintf(address, sizeof address, "127.0.0.%u", node + 1);
        host = address;
    }
    return real(host, service, hints, found);
}
