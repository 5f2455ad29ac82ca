// Templates, containers and inlined calls.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace {

std::uint64_t next(std::uint64_t &state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

template <typename Key> struct Table {
    std::map<Key, std::vector<std::uint64_t>> rows;

    [[gnu::noinline]] void insert(Key key, std::uint64_t value) { rows[key].push_back(value); }

    [[gnu::noinline]] std::uint64_t sum() const {
        std::uint64_t all = 0;
        for (const auto &row : rows)
            all += std::accumulate(row.second.begin(), row.second.end(), std::uint64_t{0});
        return all;
    }
};

[[gnu::noinline]] std::uint64_t sort_some(std::uint64_t &state) {
    std::vector<std::uint64_t> values(4000);
    for (auto &value : values)
        value = next(state);
    std::sort(values.begin(), values.end(), [](auto a, auto b) { return a % 1000003 < b % 1000003; });
    return values[values.size() / 2];
}

} // namespace

int main() {
    std::uint64_t state = 88172645463325252u, all = 0;
    Table<int> numbers;
    Table<std::string> words;
    for (int round = 0; round < 2000; round++) {
        all += sort_some(state);
        for (int i = 0; i < 300; i++) {
            numbers.insert(int(next(state) % 1000), next(state));
            words.insert("word " + std::to_string(next(state) % 500), 1);
        }
        if (round % 50 == 0)
            all += numbers.sum() + words.sum();
    }
    return all == 42;
}
