/* SPDX-License-Identifier: MIT */
/*
 * reader.c in C++17: objects are released at the end of their scope, and failures throw.
 *
 *	c++ -std=c++17 reader.cpp $(pkg-config --cflags --libs gpushare) -o reader && ./reader
 *greeting
 */
#include <cstdio>
#include <gpushare.hpp>

int main(int count, char **argument)
try {
	if (count != 2) {
		std::fprintf(stderr, "usage: reader NAME\n");
		return 2;
	}
	gpushare_attach_options wait = {};
	wait.wait_ms = 5000;
	gpushare::session session;
	gpushare::buffer buffer = session.attach(argument[1], wait);
	gpushare::mirror mirror(buffer, GPUSHARE_READ | GPUSHARE_WRITE);

	std::printf("reader: \"%s\" reads \"%s\"\n", argument[1], mirror.as<char>());
	std::snprintf(mirror.as<char>(), buffer.size(), "hello from C++");
	mirror.close(); // writes the mirror back to the buffer; throws on failure
} catch (const std::exception &error) {
	std::fprintf(stderr, "reader: %s\n", error.what());
	return 1;
}
