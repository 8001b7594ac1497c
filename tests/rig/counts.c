/* counts: in the program that `make coverage` builds. What it has counted is written also when it is ended by SIGUSR2, which
 * the rig sends in place of SIGKILL, or by _exit. */
#include <signal.h>
#include <unistd.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

void __wrap__exit(int status)
{
	__gcov_dump();
	__real__exit(status);
}

static void on_signal(int number)
{
	_exit(128 + number);
}

__attribute__((constructor)) static void install(void)
{
	signal(SIGUSR2, on_signal);
}
