import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the calls and the failed calls of each key in windows of a minute, in memory, with one thread.
 *
 * <p>Arguments: bootstrap servers, topic, application id, folder. It prints "count N" ten times a second: the executions so far.
 * All settings but the store, the thread and the start of the topic are Kafka Streams' defaults.
 */
public final class Counts {
    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final long FAILED = 1L << 32;

    private Counts() {}

    public static void main(String[] arguments) throws InterruptedException {
        var settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");

        var reader = new ObjectMapper().reader();
        var done = new LongAdder();
        var builder = new StreamsBuilder();
        builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .mapValues(value -> failed(reader, value, done))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Boolean()))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW))
                .aggregate(
                        () -> 0L,
                        (key, failed, calls) -> calls + (failed ? FAILED + 1 : 1),
                        Materialized.<String, Long>as(Stores.inMemoryWindowStore("calls", WINDOW.multipliedBy(2), WINDOW, false))
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Serdes.Long()));
        var streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        while (true) {
            System.out.println("count " + done.sum());
            Thread.sleep(100);
        }
    }

    private static boolean failed(ObjectReader reader, byte[] value, LongAdder done) {
        done.increment();
        try {
            return "error".equals(reader.readTree(value).path("status").asText());
        } catch (IOException error) {
            throw new IllegalArgumentException("not an execution", error);
        }
    }
}
