#include "callers.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

const char *const callers_names[CALLERS] = {"program",	  "libpq",	   "librdkafka", "libev", "libyaml-0",
					    "libjansson", "libmicrohttpd", "libc",	 "other"};

/* Where the callers' code lies; whatever is elsewhere is OTHER. */
static struct {
	uintptr_t begin, end;
} code[OTHER];

static enum caller caller_of_file(const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash == NULL ? path : slash + 1;
	int caller;

	if (path[0] == '\0') /* so the loader calls the program itself */
		return PROGRAM;
	for (caller = PROGRAM + 1; caller < OTHER; caller++) {
		size_t len = strlen(callers_names[caller]);

		if (strncmp(file, callers_names[caller], len) == 0 && strncmp(file + len, ".so", 3) == 0)
			break;
	}
	return (enum caller)caller;
}

static int on_object(struct dl_phdr_info *object, size_t size, void *context)
{
	enum caller caller = caller_of_file(object->dlpi_name);
	int i;

	(void)size;
	(void)context;
	for (i = 0; caller != OTHER && i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
			code[caller].begin = object->dlpi_addr + part->p_vaddr;
			code[caller].end = code[caller].begin + part->p_memsz;
		}
	}
	return 0;
}

void callers_find(void)
{
	dl_iterate_phdr(on_object, NULL);
}

enum caller callers_of(const void *address, uintptr_t *offset)
{
	uintptr_t place = (uintptr_t)address;
	int caller = PROGRAM;

	while (caller < OTHER && (place < code[caller].begin || place >= code[caller].end))
		caller++;
	if (offset != NULL)
		*offset = caller == OTHER ? 0 : place - code[caller].begin;
	return (enum caller)caller;
}
