/* Runs the one suite of a unit test file; CK_RUN_CASE and the like work as Check's manual says. */
#include "unit.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdlib.h>

int main(void)
{
	SRunner *runner;
	int failed;

	json_set_alloc_funcs(mem_take, mem_free); /* as the program does */
	/* Check's own 4 s are short for a random test on a busy machine; a test that hangs is still found. */
	setenv("CK_DEFAULT_TIMEOUT", "60", 0);
	runner = srunner_create(suite());
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
