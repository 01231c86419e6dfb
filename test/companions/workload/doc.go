// Package workload is the program of the tests' sandboxes: it looks at its surroundings, in place of a
// shell and its tools, which no image here has.
//
//	echo WORD...       print the words
//	cat [FILE]         print the file, or the standard input
//	env                print the environment, one name=value a line
//	ids                print uid and gid
//	exit N             exit with N
//	write FILE WORD    write the word into the file
//	dial HOST:PORT     print "open" when a TCP connection opens within two seconds, else fail with why
//	lookup NAME        print the addresses of the name, or fail with why
//	reach TARGET...    look at all targets at once, tcp:HOST:PORT or the name server dns:HOST:PORT, and
//	                   print a line for each: the target and "open", or why not within two seconds
//	serve HOST:PORT    listen there, print the port, and send everything back that comes
//	sleep              print "sleeping" and sleep until a signal ends it
//	stubborn           as sleep, and ignore SIGTERM
//	family             start a child that sleeps, print its process id, and sleep
//
// Callers: cmd/openshell-workload, and test programs that play the workload themselves.
package workload
