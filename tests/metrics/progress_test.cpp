// SPDX-License-Identifier: Apache-2.0
#include "metrics/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace ballast {
namespace {

/// A terminal of a given width; what is written to descriptor() comes out of shown().
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short width) : screen_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (screen_ < 0 || grantpt(screen_) != 0 || unlockpt(screen_) != 0) return;
    descriptor_ = open(ptsname(screen_), O_RDWR | O_NOCTTY);
    winsize size{};
    size.ws_col = width;
    ioctl(descriptor_, TIOCSWINSZ, &size);
    fcntl(screen_, F_SETFL, O_NONBLOCK);
    setenv("TERM", "xterm", 1);
    unsetenv("CI");
  }
  ~PseudoTerminal() {
    close(descriptor_);
    close(screen_);
  }
  int descriptor() const { return descriptor_; }
  // What was written arrives a little later, the more so on a busy machine: a mark of our own tells the end.
  std::string shown() const {
    constexpr char kEnd = '\1';
    if (write(descriptor_, &kEnd, 1) != 1) return "";
    std::string text;
    pollfd waiting{screen_, POLLIN, 0};
    while (!text.ends_with(kEnd) && poll(&waiting, 1, 10000) > 0) {
      char part[1000];
      const ssize_t size = read(screen_, part, sizeof(part));
      if (size > 0) text.append(part, static_cast<size_t>(size));
    }
    return text.substr(0, text.find(kEnd));
  }

 private:
  int screen_;
  int descriptor_ = -1;
};

TEST(ProgressText, ShowsPercentageTimeLeftAndRate) {
  EXPECT_EQ(progress_text({420, 1000, 192, 12345}, 100),
            " 42% [########------------] step 420/1000  ETA 0:03:12  12.3k tokens/s");
  EXPECT_EQ(progress_text({1000, 1000, 0, 987}, 100),
            "100% [####################] step 1000/1000  ETA 0:00:00  987 tokens/s");
  EXPECT_EQ(progress_text({0, 9, 3723.4, 4.51e6}, 100),
            "  0% [--------------------] step 0/9  ETA 1:02:03  4.5M tokens/s");
}

TEST(ProgressText, LeavesOutWhatIsNotKnownAndFitsTheWidth) {
  EXPECT_EQ(progress_text({1, 4, -1, -1}, 100), " 25% [#####---------------] step 1/4");
  EXPECT_EQ(progress_text({1, 4, -1, -1}, 9), " 25% [###");
}

TEST(ProgressLine, DrawsOverItselfAndIsErasedBeforeAnotherLine) {
  PseudoTerminal terminal(80);
  ProgressLine line(10, terminal.descriptor());
  line.before_line();
  EXPECT_EQ(terminal.shown(), "");
  line.update(5, 2.0, 100);
  EXPECT_EQ(terminal.shown(), "\r\x1b[K 50% [##########----------] step 5/10  ETA 0:00:10  100 tokens/s\r");
  line.before_line();
  EXPECT_EQ(terminal.shown(), "\r\x1b[K");
  line.before_line();
  EXPECT_EQ(terminal.shown(), "");
}

TEST(ProgressLine, NeverFillsTheLastColumn) {
  PseudoTerminal terminal(20);
  ProgressLine line(10, terminal.descriptor());
  line.update(5, 2.0, 100);
  EXPECT_EQ(terminal.shown(), "\r\x1b[K 50% [##########---\r");
}

// 1 s steps, then one of 11 s that counts a tenth: mean 2 s.
TEST(ProgressLine, EstimatesFromAMovingAverage) {
  PseudoTerminal terminal(80);
  ProgressLine line(102, terminal.descriptor());
  line.update(1, 1.0, 1);
  line.update(2, 11.0, 1);
  EXPECT_NE(terminal.shown().find("step 2/102  ETA 0:03:20"), std::string::npos);
}

TEST(ProgressLine, IsSilentInContinuousIntegrationAndOnDumbTerminals) {
  PseudoTerminal terminal(80);
  setenv("CI", "true", 1);
  ProgressLine(10, terminal.descriptor()).update(5, 2.0, 100);
  unsetenv("CI");
  setenv("TERM", "dumb", 1);
  ProgressLine(10, terminal.descriptor()).update(5, 2.0, 100);
  EXPECT_EQ(terminal.shown(), "");
}

TEST(ProgressLine, IsSilentOnAPipe) {
  setenv("TERM", "xterm", 1);
  unsetenv("CI");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    ProgressLine line(10, ends[1]);
    line.update(5, 2.0, 100);
  }
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

}  // namespace
}  // namespace ballast
