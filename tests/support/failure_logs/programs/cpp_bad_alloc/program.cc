#include <vector>
int main() { std::vector<char*> v; for (;;) v.push_back(new char[64 << 20]()); }
