import io.github.resilience4j.circuitbreaker.CallNotPermittedException;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.StringJoiner;

/** What resilience4j adds to a call, in nanoseconds of processor time of the calling thread. Argument: its version. */
public final class Resilience4j {
    private static final int ROUNDS = 20;
    private static final int CALLS = 200_000;
    private static volatile int sink;

    private Resilience4j() {}

    private static void nothing() {
        sink++;
    }

    private static double cost(Runnable call) {
        var threads = ManagementFactory.getThreadMXBean();
        long before = threads.getCurrentThreadCpuTime();
        for (int number = 0; number < CALLS; number++) {
            call.run();
        }
        return (double) (threads.getCurrentThreadCpuTime() - before) / CALLS;
    }

    private static CircuitBreaker breaker(String name) {
        return CircuitBreaker.of(
                name,
                CircuitBreakerConfig.custom()
                        .slidingWindow(5, 5, CircuitBreakerConfig.SlidingWindowType.COUNT_BASED)
                        .failureRateThreshold(100)
                        .waitDurationInOpenState(Duration.ofHours(1))
                        .build());
    }

    public static void main(String[] arguments) {
        var closed = breaker("closed");
        var open = breaker("open");
        for (int number = 0; number < 5; number++) {
            try {
                open.executeRunnable(() -> {
                    throw new IllegalStateException("down");
                });
            } catch (IllegalStateException down) {
                // the tool's error
            }
        }
        if (open.getState() != CircuitBreaker.State.OPEN) {
            throw new IllegalStateException("it is not open");
        }
        var rounds = new StringJoiner(", ", "[", "]");
        for (int number = 0; number < ROUNDS; number++) {
            double bare = cost(Resilience4j::nothing);
            double passed = cost(() -> closed.executeRunnable(Resilience4j::nothing)) - bare;
            double refused = cost(() -> {
                        try {
                            open.executeRunnable(Resilience4j::nothing);
                        } catch (CallNotPermittedException refusal) {
                            sink++;
                        }
                    }) - bare;
            rounds.add("{\"closed\": " + passed + ", \"open\": " + refused + "}");
        }
        System.out.println("{\"name\": \"resilience4j\", \"version\": \"" + arguments[0] + "\", \"runtime\": \"Java "
                + System.getProperty("java.version") + "\", \"rounds\": " + rounds + "}");
    }
}
