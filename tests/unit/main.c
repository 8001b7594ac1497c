/* Runs the one suite of a unit test file; CK_RUN_CASE and the like work as Check's manual says. */
#include "unit.h"

#include <stdlib.h>

int main(void)
{
	SRunner *runner = srunner_create(suite());
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
