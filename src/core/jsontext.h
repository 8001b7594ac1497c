/* jsontext: any bytes as a JSON string. */
#ifndef OUTBOXD_CORE_JSONTEXT_H
#define OUTBOXD_CORE_JSONTEXT_H

#include <jansson.h>

/* Text of servers and libraries may be in any encoding: bytes that are no UTF-8 become U+FFFD. NULL: JSON's null.
 * The caller owns it. */
json_t *jsontext_new(const char *text);

#endif
