#include <signal.h>
#include <stdio.h>
int main() { puts("start"); fflush(stdout); raise(SIGFPE); }
