# Compilers and their assembler: the same object code, byte by byte.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="gcc g++ make tcl"
sources="sqlite3"
limit=400

prepare() {
    cp -r "$suites/src/sqlite3" "$shared/sqlite"
    # SQLite in one file of a quarter of a million lines.
    (cd "$shared/sqlite" && ./configure --disable-tcl && make sqlite3.c)
    cat >"$shared/templates.cpp" <<'END'
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Tree { std::variant<Tree<N - 1>, std::map<int, Tree<N - 2>>> branches; int depth() { return N; } };
template <> struct Tree<0> { int leaf; int depth() { return 0; } };
template <> struct Tree<-1> { std::string leaf; int depth() { return -1; } };
int words(const std::string &text) {
    std::regex word("([[:alpha:]]+)|([0-9]+)");
    std::unordered_map<std::string, int> count;
    for (std::sregex_iterator next(text.begin(), text.end(), word), end; next != end; ++next) ++count[next->str()];
    std::vector<std::pair<std::string, int>> sorted(count.begin(), count.end());
    std::sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) { return a.second > b.second; });
    return sorted.empty() ? 0 : sorted.front().second + Tree<40>().depth();
}
END
}

units() { printf '%s\n' c-O0 c-O2 c++-O2 preprocessor; }

run() {
    local status=0
    case $1 in
    c-O0) compile gcc -O0 -g -c "$shared/sqlite/sqlite3.c" ;;
    c-O2) compile gcc -O2 -c "$shared/sqlite/sqlite3.c" ;;
    c++-O2) compile g++ -O2 -c "$shared/templates.cpp" ;;
    preprocessor) compile gcc -E "$shared/sqlite/sqlite3.c" ;;
    esac
}

compile() {
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} "$@" -o object >messages 2>&1 || status=$?
    printf 'status\t%s\nobject\t%s\nmessages\t%s\n' "$status" "$(sha256sum <object)" "$(sha256sum <messages)"
}
