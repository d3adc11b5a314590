/* SPDX-License-Identifier: MIT */
/* Pointers that the shim freed in the place of the program's own free. It knows each one while
 * the driver gives the same buffer id there, and at most FREED_MAX of them. */
#include "unit.h"

#include "stuck.h"

#include "preload/shim_freed.c"

#define POINTER(n) ((cu_deviceptr)((n) + 1) << 20)

/* The buffer ids of the driver's allocations; 0: no allocation. */
static unsigned long long ids[2 * FREED_MAX];
static unsigned int asked;

static cu_result play_attribute(void *value, cu_pointer_attribute attribute, cu_deviceptr pointer)
{
	unsigned long long id = ids[(pointer >> 20) - 1];

	assert_int_equal(attribute, CU_ATTRIBUTE_BUFFER_ID);
	/* The shim holds no lock during this call. */
	assert_int_equal(pthread_mutex_trylock(&freed.lock), 0);
	pthread_mutex_unlock(&freed.lock);
	asked++;
	errno = EIO;
	if (!id)
		return CU_INVALID_VALUE;
	*(unsigned long long *)value = id;
	return CU_OK;
}

static struct driver driver;

static int set_up(void **state)
{
	driver = (struct driver){.cuPointerGetAttribute = play_attribute};
	for (unsigned int i = 0; i < FREED_MAX; i++)
		set(i, 0, 0);
	freed.next = 0;
	assert_int_equal(atomic_load(&freed_count), 0);
	for (unsigned int i = 0; i < 2 * FREED_MAX; i++)
		ids[i] = 1000 + i;
	asked = 0;
	stuck_lock = false;
	errno = 0;
	return 0;
}

static void known_while_it_is_that(void **state)
{
	assert_false(freed_maybe(POINTER(0)) || freed_holds(&driver, POINTER(0)) || asked);
	freed_put(&driver, POINTER(0));
	assert_true(freed_maybe(POINTER(0)) && !freed_maybe(POINTER(1)) && !freed_maybe(0));
	assert_true(freed_holds(&driver, POINTER(0)) && freed_holds(&driver, POINTER(0)));
	assert_false(freed_holds(&driver, POINTER(1)));
	assert_int_equal(asked, 3);
	assert_int_equal(errno, 0);
}

/* With id 0 there is no allocation at all. */
static void another_allocation_by_now(void **state)
{
	for (unsigned int id = 0; id < 2; id++) {
		freed_put(&driver, POINTER(0));
		freed_put(&driver, POINTER(1));
		ids[0] = id;
		assert_false(freed_holds(&driver, POINTER(0)));
		assert_true(!freed_maybe(POINTER(0)) && freed_holds(&driver, POINTER(1)));
		ids[0] = 7;
	}
	freed_put(&driver, POINTER(0));
	assert_true(freed_holds(&driver, POINTER(0)));
	ids[0] = 8; /* freed again, as the other allocation */
	freed_put(&driver, POINTER(0));
	assert_true(freed_holds(&driver, POINTER(0)));
	ids[0] = 7;
	assert_false(freed_holds(&driver, POINTER(0)));
	assert_int_equal(atomic_load(&freed_count), 1);
}

static void not_freed_after_all(void **state)
{
	struct freed first, second;

	first = freed_put(&driver, POINTER(0));
	ids[0] = 7;
	second = freed_put(&driver, POINTER(0));
	freed_forget(&first); /* the pointer is another allocation's */
	assert_true(freed_holds(&driver, POINTER(0)));
	freed_forget(&second);
	assert_false(freed_maybe(POINTER(0)) || atomic_load(&freed_count));
	freed_forget(&second);
	assert_int_equal(atomic_load(&freed_count), 0);
}

static void the_oldest_is_forgotten(void **state)
{
	unsigned int last = FREED_MAX + 1;

	for (unsigned int i = 0; i < FREED_MAX; i++)
		freed_put(&driver, POINTER(i));
	freed_put(&driver, POINTER(0)); /* now the newest, in its old slot */
	assert_true(freed_holds(&driver, POINTER(0)) && freed_holds(&driver, POINTER(1)));
	for (unsigned int i = FREED_MAX; i <= last; i++)
		freed_put(&driver, POINTER(i));
	for (unsigned int i = 0; i <= last; i++)
		assert_int_equal(freed_holds(&driver, POINTER(i)), !i || i > 2);
	assert_int_equal(atomic_load(&freed_count), FREED_MAX);
}

static void a_driver_that_cannot_tell(void **state)
{
	driver.cuPointerGetAttribute = NULL;
	freed_put(&driver, POINTER(0));
	assert_false(freed_maybe(POINTER(0)));
	driver.cuPointerGetAttribute = play_attribute;
	ids[0] = 0;
	freed_put(&driver, POINTER(0));
	freed_put(&driver, 0);
	assert_false(freed_maybe(POINTER(0)) || atomic_load(&freed_count));
}

/* In a forked child the thread that holds the lock doesn't exist. */
static void nobody_lets_go_of_the_lock(void **state)
{
	struct freed one = {POINTER(0), 1000};

	freed_put(&driver, POINTER(0));
	stuck_lock = true;
	assert_false(freed_holds(&driver, POINTER(0)));
	freed_put(&driver, POINTER(1));
	freed_forget(&one);
	stuck_lock = false;
	assert_true(freed_holds(&driver, POINTER(0)) && !freed_maybe(POINTER(1)));
}

UNIT_MAIN(cmocka_unit_test_setup(known_while_it_is_that, set_up),
	  cmocka_unit_test_setup(another_allocation_by_now, set_up),
	  cmocka_unit_test_setup(not_freed_after_all, set_up),
	  cmocka_unit_test_setup(the_oldest_is_forgotten, set_up),
	  cmocka_unit_test_setup(a_driver_that_cannot_tell, set_up),
	  cmocka_unit_test_setup(nobody_lets_go_of_the_lock, set_up))
