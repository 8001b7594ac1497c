#include "core/timetext.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND_US INT64_C(1000000)
#define DAY_US (86400 * SECOND_US)
/* Days from 2000-01-01 to 0001-01-01 and 10000-01-01. */
#define FIRST_DAY INT64_C(-730119)
#define BEHIND_LAST_DAY INT64_C(2921940)

struct date {
	int year, month, day;
};

/* The Gregorian calendar. Years begin in March here, so that a leap day is the last; from then on months have the rhythm of 153
 * days in five. 400 years have 146097 days. */
static struct date date_of(int64_t day)
{
	int since = (int)day + 730425; /* days from 0000-03-01 */
	int of_era = since % 146097;
	int year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int of_year = of_era - (365 * year + year / 4 - year / 100);
	int month = (5 * of_year + 2) / 153;

	return (struct date){.year = year + since / 146097 * 400 + (month >= 10),
			     .month = month < 10 ? month + 3 : month - 9,
			     .day = of_year - (153 * month + 2) / 5 + 1};
}

size_t timetext_rfc3339(int64_t us, char text[TIMETEXT_BYTES])
{
	int64_t day = us / DAY_US - (us % DAY_US < 0);
	struct date date;
	int second, len;

	if (day < FIRST_DAY || day >= BEHIND_LAST_DAY)
		return 0;
	us -= day * DAY_US;
	second = (int)(us / SECOND_US);
	date = date_of(day);
	len = snprintf(text, TIMETEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", date.year, date.month, date.day,
		       second / 3600, second / 60 % 60, second % 60, (int)(us % SECOND_US));
	return (size_t)len;
}
