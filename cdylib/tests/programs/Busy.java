// Threads that compile, allocate, throw and wait; the output does not depend on a profiler.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

class Busy {
    static int depth(int n) {
        if (n == 0) throw new IllegalStateException("bottom");
        return depth(n - 1) + 1;
    }

    static long work(int seed) {
        long sum = seed;
        Map<Integer, String> map = new HashMap<>();
        for (int i = 0; i < 100000; i++) {
            sum = sum * 31 + i;
            map.put(i % 5000, "value " + i % 77);
            if (i % 1000 == 0) {
                try {
                    depth(50);
                } catch (IllegalStateException expected) {
                    sum += expected.getStackTrace().length;
                }
            }
            if (i % 10000 == 0) {
                Object nothing = i < 0 ? "" : null;
                try {
                    // The JVM finds this by a SIGSEGV of its own.
                    sum += nothing.hashCode();
                } catch (NullPointerException expected) {
                    sum++;
                }
            }
        }
        for (int key = 0; key < 5000; key++) sum += map.get(key).length();
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        long[] sums = new long[4];
        for (int i = 0; i < sums.length; i++) {
            final int index = i;
            Thread thread = new Thread(() -> {
                for (int j = 0; j < 2; j++) sums[index] += work(index);
            });
            thread.start();
            threads.add(thread);
        }
        for (int i = 0; i < 5; i++) System.gc();
        for (Thread thread : threads) thread.join();
        for (long sum : sums) System.out.println(sum);
    }
}
