// SPDX-License-Identifier: MIT
/*
 * Tests gpushare.hpp. `create UP END` and `get` are the two processes of vineyard's published
 * example of GPU memory sharing. Each other verb is a test in one process, and prints a line at its
 * end: `scopes`, `map`, `array`, `events`, `tell`, `stream`, `watch`, `order`, `lost`.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include <gpushare.hpp>

static constexpr std::size_t DATA_SIZE = 1 << 20;

static void must(bool good, const char *what)
{
	if (good)
		return;
	std::fprintf(stderr, "not so: %s\n", what);
	std::exit(1);
}
#define MUST(what) must(what, #what)

/* The status that `call` throws; 0: it didn't. */
template <class T> static int thrown(T call, const char *words = "")
{
	try {
		call();
	} catch (const gpushare::error &caught) {
		MUST(std::strstr(caught.what(), words));
		return caught.status();
	}
	return 0;
}

static char pattern(std::size_t i)
{
	return static_cast<char>(i * 31 + (i >> 9));
}

static void tell(const char *path)
{
	std::ofstream file(path);
}

static void await(const char *path)
{
	while (access(path, F_OK))
		usleep(1000);
}

/* The first process: allocate, fill by the CPU, and free once the file `end` exists. */
static void create(const char *up, const char *end)
{
	gpushare::session client;
	gpushare_alloc_options options = {};
	options.device = -1;
	options.flags = GPUSHARE_FLAG_READONLY | GPUSHARE_FLAG_STAGED;
	gpushare::buffer buffer = client.alloc("object", DATA_SIZE, options);
	buffer.commit();

	MUST(buffer.pointer() != 0); /* GPU memory */
	MUST(!buffer.is_read_only());
	MUST(buffer.size() == DATA_SIZE);
	{
		gpushare::mirror mirror(buffer, GPUSHARE_WRITE);
		for (std::size_t i = 0; i < DATA_SIZE; i++)
			mirror.as<char>()[i] = pattern(i);
		std::memcpy(mirror.data(), "hello world", 12);
	}
	char found[12];
	buffer.copy_from(found, sizeof(found));
	std::printf("GPU data is: %s\n", found);
	tell(up);
	await(end);
	buffer.close();
	MUST(thrown([&] { client.stat("object"); }, "object") == GPUSHARE_E_NOT_FOUND);
	std::printf("deleted\n");
}

/* The second process: attach, read by the CPU, compare every byte. Writing is refused. */
static void get()
{
	gpushare::session client;
	gpushare::buffer buffer = client.attach("object");

	MUST(buffer.pointer() != 0);
	MUST(buffer.is_read_only());
	{
		gpushare::mirror mirror(buffer, GPUSHARE_READ);
		std::printf("CPU data from GPU is: %s\n", mirror.as<const char>());
		MUST(mirror.size() == DATA_SIZE);
		for (std::size_t i = 12; i < DATA_SIZE; i++)
			MUST(mirror.as<const char>()[i] == pattern(i));
		std::memset(mirror.data(), 0, DATA_SIZE); /* stays here */
	}
	for (unsigned int access : {0u + GPUSHARE_WRITE, 0u + (GPUSHARE_READ | GPUSHARE_WRITE)})
		MUST(thrown([&] { gpushare::mirror mirror(buffer, access); }, "read-only") ==
		     GPUSHARE_E_READ_ONLY);
	MUST(thrown([&] { buffer.copy_to("x", 1); }) == GPUSHARE_E_READ_ONLY);
	char found[12];
	buffer.copy_from(found, sizeof(found));
	std::printf("GPU data is still: %s\n", found);
}

static char first_byte(const gpushare::buffer &buffer)
{
	char byte;
	buffer.copy_from(&byte, 1);
	return byte;
}

static void end_mirrors(const gpushare::buffer &buffer)
{
	{
		gpushare::mirror one(buffer, GPUSHARE_WRITE, 0, 1);
		*one.as<char>() = 'a';
	}
	MUST(first_byte(buffer) == 'a');
	try {
		gpushare::mirror one(buffer, GPUSHARE_WRITE, 0, 1);
		*one.as<char>() = 'b';
		throw std::runtime_error("half done");
	} catch (const std::runtime_error &) {
	}
	MUST(first_byte(buffer) == 'a');
	{
		gpushare::mirror one(buffer, GPUSHARE_WRITE, 0, 1), two(std::move(one));
		MUST(!one.data() && two.size() == 1);
		*two.as<char>() = 'c';
		two.sync();
		MUST(first_byte(buffer) == 'c');
		*two.as<char>() = 'd';
		one = std::move(two);
		one.drop();
	}
	MUST(first_byte(buffer) == 'c');
	gpushare::mirror one(buffer, GPUSHARE_WRITE, 0, 1);
	*one.as<char>() = 'e';
	one.close();
	MUST(!one.data() && first_byte(buffer) == 'e');
}

/* Buffers and mirrors keep their session open. After the last of them nothing is left. */
static void end_scopes()
{
	gpushare::session client;
	{
		gpushare::buffer buffer = client.alloc("x", 100);
		std::string names;

		end_mirrors(buffer);
		client.alloc("y", 1);
		for (const gpushare_info &info : client.list())
			names += info.name;
		MUST(names == "x" && client.list("y*").empty());
		MUST(client.stat("x").generation == buffer.info().generation);
		MUST(thrown([&] { client.alloc("x", 1); }, "x") == GPUSHARE_E_EXISTS);
		MUST(thrown([&] { gpushare::mirror(buffer, GPUSHARE_READ, 100, 1); }, "x") ==
		     GPUSHARE_E_RANGE);
		gpushare::mirror outlives = [&] {
			gpushare::buffer attached = gpushare::session().attach("x");
			return gpushare::mirror(attached, GPUSHARE_READ | GPUSHARE_WRITE);
		}();
		*outlives.as<char>() = 'f';
		outlives.close();
		MUST(first_byte(buffer) == 'f');
		gpushare::buffer elsewhere = std::move(buffer);
		client.unlink("x");
		MUST(elsewhere.size() == 100 && client.list().empty());
	}
	std::printf("all ended\n");
}

/* A failed write-back throws, and the mirror still has the bytes. */
static void lose_write_back()
{
	gpushare::session client;
	gpushare::buffer buffer = client.alloc("x", 100);
	gpushare::mirror mirror(buffer, GPUSHARE_WRITE, 0, 1);

	*mirror.as<char>() = 'g';
	MUST(thrown([&] { mirror.close(); }, "still open") == GPUSHARE_E_CUDA);
	MUST(*mirror.as<char>() == 'g');
	mirror.close();
	MUST(first_byte(buffer) == 'g');
	std::printf("not lost\n");
}

/* In a map, the CPU and the GPU see each other's stores. The map outlives buffer and session. */
static void map_memory()
{
	gpushare_alloc_options options = {};
	options.device = -1;
	options.flags = GPUSHARE_FLAG_VMM;
	gpushare::map outlives = [&] {
		gpushare::session client;
		gpushare::buffer buffer = client.alloc("x", 100, options);
		gpushare::map map(buffer, GPUSHARE_READ | GPUSHARE_WRITE), other = std::move(map);

		MUST(!map.data() && other.size() == 100 && *other.info().backend);
		*other.as<char>() = 'h';
		other.flush(0, 1);
		MUST(first_byte(buffer) == 'h');
		buffer.copy_to("i", 1);
		other.invalidate(0, 1);
		MUST(*other.as<char>() == 'i');
		MUST(thrown([&] { gpushare::map(buffer, GPUSHARE_READ, 100, 1); }, "x") ==
		     GPUSHARE_E_RANGE);
		MUST(thrown([&] { other.flush(0, 101); }, "x") == GPUSHARE_E_RANGE);
		return other;
	}();
	MUST(*outlives.as<char>() == 'i');
	outlives.close();
	MUST(!outlives.data());
	std::printf("mapped\n");
}

/* Unified memory: the CPU uses it at the device pointer. */
static void make_array()
{
	gpushare_alloc_options options = {};
	options.device = -1;
	options.flags = GPUSHARE_FLAG_UNIFIED;
	gpushare::session client;
	gpushare::buffer buffer = client.alloc_array("x", 1000, sizeof(float), options);
	auto cells = reinterpret_cast<float *>(static_cast<std::uintptr_t>(buffer.pointer()));

	MUST(buffer.size() == 1000 * sizeof(float));
	cells[999] = 2.5f;
	float seen = 0;
	buffer.copy_from(&seen, sizeof(seen), 999 * sizeof(float));
	MUST(seen == 2.5f);
	MUST(thrown([&] { client.alloc_array("y", SIZE_MAX / 2, 4, options); },
		    "more than an address space can hold") == GPUSHARE_E_INVALID);
	std::printf("an array\n");
}

/* An opened event works until it is closed, even after its creator has closed it. */
static void use_events()
{
	gpushare::session client;
	gpushare::event outlives = [&] {
		gpushare::event step = client.event_create("step"), moved = std::move(step);
		gpushare::event same = gpushare::session().event_open("step");

		MUST(!step.handle() && same.handle() == moved.handle());
		MUST(moved.info().backing == GPUSHARE_BACKING_EVENT);
		same.record();
		moved.wait();
		MUST(moved.wait_host(20000) && same.query());
		MUST(client.list().empty() && client.list_events("s*").size() == 1);
		MUST(thrown([&] { client.attach("step"); }, "is an event") == GPUSHARE_E_INVALID);
		MUST(thrown([&] { client.event_create("step"); }, "step") == GPUSHARE_E_EXISTS);
		step = std::move(moved);
		step.close();
		return same;
	}();
	MUST(client.list_events().empty());
	outlives.record();
	MUST(outlives.wait_host());
	MUST(thrown([&] { client.event_open("step"); }, "step") == GPUSHARE_E_NOT_FOUND);
	std::printf("events\n");
}

/* Tags, holders and states. A staged buffer gets its tags before others see it. */
static void tell_of()
{
	gpushare::session client, other;
	gpushare_share_options staged = {};
	staged.staged = 1;
	staged.mode = 0640;
	gpushare::buffer memory = client.alloc("memory", 4096);
	gpushare::buffer made = client.share("x", memory.pointer(), 4096, staged);

	client.tag("x", {{"dtype", "f32"}, {"step", "7"}});
	made.commit();
	MUST(other.stat("x").mode == 0640);
	gpushare::buffer attached = other.attach("x");
	const std::map<std::string, std::string> given = {{"dtype", "f32"}, {"step", "7"}};
	MUST(attached.tags() == given);
	client.tag("x", {{"step", ""}});
	MUST(attached.tags().size() == 1);
	for (std::size_t size : {GPUSHARE_TAG_VALUE_MAX + 1, 1000})
		MUST(thrown([&] { client.tag("x", {{"a", std::string(size, 'v')}}); },
			    "too long") == GPUSHARE_E_INVALID);
	MUST(thrown([&] { client.tag("x", {{std::string(32, 'k'), "v"}}); }, "too long") ==
	     GPUSHARE_E_INVALID);
	MUST(attached.tags().size() == 1 && thrown([&] { client.tag("y", {}); }));
	MUST(attached.state() == GPUSHARE_STATE_SHARED);
	auto holders = client.holders("x");
	MUST(holders.size() == 1 && holders[0].pid == getpid() && holders[0].own);
	MUST(client.registry().names == 2);
	client.unlink("x");
	MUST(attached.state() == GPUSHARE_STATE_WITHDRAWN && client.list_deferred().empty());
	MUST(thrown([&] { attached.tags(); }) == GPUSHARE_E_NOT_FOUND);
	std::printf("told\n");
}

/* Writes and reads in pieces. An exception of the callback ends the call and reaches its caller. */
static void stream_bytes()
{
	static constexpr std::size_t size = 20 << 20;
	gpushare::session client;
	gpushare::buffer buffer = client.alloc("x", size);
	std::size_t at = 0, pieces = 0;

	buffer.write(
	    [&](void *data, std::size_t count) {
		    for (std::size_t i = 0; i < count; i++)
			    static_cast<char *>(data)[i] = pattern(at + i);
		    at += count;
	    },
	    size - 1, 1);
	MUST(at == size - 1);
	at = 0;
	buffer.read(
	    [&](const void *data, std::size_t count) {
		    for (std::size_t i = 0; i < count; i++)
			    MUST(static_cast<const char *>(data)[i] == pattern(at + i));
		    at += count;
		    pieces++;
	    },
	    size - 1, 1);
	MUST(at == size - 1 && pieces > 1);
	try {
		buffer.read([](const void *, std::size_t) { throw std::runtime_error("enough"); },
			    size);
		MUST(!"it was thrown");
	} catch (const std::runtime_error &caught) {
		MUST(!std::strcmp(caught.what(), "enough"));
	}
	MUST(thrown([&] { buffer.read([](const void *, std::size_t) {}, size, 1); }) ==
	     GPUSHARE_E_RANGE);
	std::printf("streamed\n");
}

/* Notices about buffers of another session. The watch outlives the session that opened it. */
static void watch_buffers()
{
	auto told = [] {
		gpushare::session client;
		return gpushare::watch(client, "x*");
	}();
	gpushare::watch moved = std::move(told);

	MUST(!moved.next(0));
	{
		gpushare::session client;
		gpushare::buffer other = client.alloc("other", 4096),
				 one = client.alloc("x1", 4096);
	}
	MUST(moved.fd() >= 0);
	auto notice = moved.next();
	MUST(notice && notice->kind == GPUSHARE_NOTICE_SHARE && notice->pid == getpid());
	MUST(!std::strcmp(notice->info.name, "x1") && notice->info.size == 4096);
	notice = moved.next(10000);
	MUST(notice && notice->kind == GPUSHARE_NOTICE_WITHDRAW);
	MUST(!moved.next(10));
	std::printf("watched\n");
}

/* By the CPU and by a stream, in one process: the calls' own tests are in C. */
static void publish_and_acquire()
{
	gpushare::session client;
	auto ring = client.alloc("ring", 4096);
	auto seen = client.attach("ring");

	MUST(seen.join() == 1);
	MUST(ring.publish() == 1 && ring.sequence() == 1);
	MUST(seen.acquire(1) == 1);
	MUST(thrown([&] { ring.reclaim(1, 0); }, "not released") == GPUSHARE_E_TIMED_OUT);
	seen.acquire(nullptr, 1);
	seen.release(1);
	ring.reclaim(1);
	ring.reclaim(nullptr, 1);
	MUST(ring.publish(nullptr) == 2);
	MUST(seen.acquire(2) == 2);
	seen.release(nullptr, 2);
	seen.leave();
	MUST(ring.ordering() != GPUSHARE_ORDERING_NONE);
	seen.order_status();
	ring.close();
	MUST(thrown([&] { seen.order_status(); }) == GPUSHARE_E_OWNER_GONE);
	std::printf("two publications\n");
}

int main(int argc, char **argv)
try {
	const std::map<std::string, void (*)()> verbs{
	    {"get", get},	     {"scopes", end_scopes},   {"map", map_memory},
	    {"array", make_array},   {"events", use_events},   {"tell", tell_of},
	    {"stream", stream_bytes}, {"watch", watch_buffers}, {"order", publish_and_acquire},
	    {"lost", lose_write_back}};
	const std::string verb = argc > 1 ? argv[1] : "";

	if (verb == "create" && argc == 4)
		create(argv[2], argv[3]);
	else if (verbs.count(verb))
		verbs.at(verb)();
	else
		return 2;
	return 0;
} catch (const gpushare::error &caught) {
	std::fprintf(stderr, "%d: %s\n", caught.status(), caught.what());
	return 1;
}
